//! Reads a pickle without running anything in it.

use std::collections::HashMap;

use super::{
    cursor::Cursor,
    nodes::{Global, Handle, Node, Nodes, StorageNode, TensorNode},
};
use crate::weights::{error::FormatError, shown::shown};

/// The values of a pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    pub(super) nodes: Nodes,
    pub(super) root: Handle,
}

/// Reads one pickle and leaves the cursor behind its end.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Pickle, FormatError> {
    let mut machine = PickleMachine { at: cursor.at(), ..PickleMachine::default() };
    loop {
        machine.at = cursor.at();
        let opcode = cursor.byte()?;
        if opcode == STOP {
            let root = machine.pop()?;
            return Ok(Pickle { nodes: machine.nodes, root });
        }
        let is_known = machine.scalar(opcode, cursor)?
            || machine.text(opcode, cursor)?
            || machine.container(opcode)?
            || machine.memory(opcode, cursor)?
            || machine.call(opcode, cursor)?;
        if !is_known {
            return Err(FormatError::Instruction { at: machine.at, opcode });
        }
    }
}

const STOP: u8 = b'.';

/// The stack machine that runs pickles.
#[derive(Default)]
struct PickleMachine {
    nodes: Nodes,
    stack: Vec<Handle>,
    /// Heights of the stack at marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Handle>,
    /// The instruction's byte.
    at: u64,
}

/// The most entries of the stack, the memo or the marks.
const MOST_HELD: usize = 1 << 22;
/// The longest text that is kept. Longer texts are no names.
const LONGEST_TEXT: u32 = 1024;

impl PickleMachine {
    fn unexpected(&self, expected: &'static str) -> FormatError {
        FormatError::Unexpected { at: self.at, expected }
    }

    fn check_held(&self, held: usize) -> Result<(), FormatError> {
        if held < MOST_HELD {
            return Ok(());
        }
        Err(FormatError::TooMany { at: self.at, most: MOST_HELD, what: "values held by a pickle" })
    }

    fn push(&mut self, handle: Handle) -> Result<bool, FormatError> {
        self.check_held(self.stack.len())?;
        self.stack.push(handle);
        Ok(true)
    }

    fn push_new(&mut self, node: Node) -> Result<bool, FormatError> {
        let handle = self.nodes.add(self.at, node)?;
        self.push(handle)
    }

    fn pop(&mut self) -> Result<Handle, FormatError> {
        // Values below a mark belong to an outer tuple, list or dictionary.
        let floor = self.marks.last().copied().unwrap_or_default();
        let value = if self.stack.len() > floor { self.stack.pop() } else { None };
        value.ok_or_else(|| self.unexpected("a value that was made before"))
    }

    fn top(&self) -> Result<Handle, FormatError> {
        self.stack.last().copied().ok_or_else(|| self.unexpected("a value that was made before"))
    }

    /// The values above the last mark.
    fn pop_to_mark(&mut self) -> Result<Vec<Handle>, FormatError> {
        let mark = self.marks.pop().ok_or_else(|| self.unexpected("a mark that was made before"))?;
        Ok(self.stack.split_off(mark))
    }

    /// Numbers, `None`, truth values, and instructions without effect.
    fn scalar(&mut self, opcode: u8, cursor: &mut Cursor<'_>) -> Result<bool, FormatError> {
        let integer = match opcode {
            // Protocol and frame.
            0x80 => return cursor.skip(1).map(|()| true),
            0x95 => return cursor.skip(8).map(|()| true),
            // A float.
            b'G' => {
                cursor.skip(8)?;
                return self.push_new(Node::Other);
            }
            b'N' => return self.push_new(Node::Other),
            0x88 | 0x89 => return self.push_new(Node::Boolean(opcode == 0x88)),
            b'J' => i64::from(i32::from_le_bytes(cursor.array()?)),
            b'K' => i64::from(cursor.byte()?),
            b'M' => i64::from(u16::from_le_bytes(cursor.array()?)),
            0x8a => {
                let length = cursor.byte()?;
                let bytes = cursor.take(u64::from(length))?;
                return self.push_new(long(&bytes).map_or(Node::Other, Node::Integer));
            }
            _ => return Ok(false),
        };
        self.push_new(Node::Integer(integer))
    }

    /// Texts, including those of Python 2, which are the names of its parameters.
    fn text(&mut self, opcode: u8, cursor: &mut Cursor<'_>) -> Result<bool, FormatError> {
        let length = match opcode {
            b'X' | b'T' => u32::from_le_bytes(cursor.array()?),
            0x8c | b'U' => u32::from(cursor.byte()?),
            _ => return Ok(false),
        };
        if length > LONGEST_TEXT {
            cursor.skip(u64::from(length))?;
            return self.push_new(Node::Other);
        }
        let bytes = cursor.take(u64::from(length))?;
        let text = String::from_utf8(bytes).map_err(|_| self.unexpected("a text in UTF-8"))?;
        self.push_new(Node::Text(text.into()))
    }

    /// Tuples, lists and dictionaries.
    fn container(&mut self, opcode: u8) -> Result<bool, FormatError> {
        match opcode {
            b'(' => {
                self.check_held(self.marks.len())?;
                self.marks.push(self.stack.len());
                Ok(true)
            }
            b')' => self.push_new(Node::Tuple(Box::default())),
            b't' => {
                let items = self.pop_to_mark()?;
                self.push_new(Node::Tuple(items.into()))
            }
            0x85..=0x87 => {
                let mut items = Vec::new();
                for _ in 0x85..=opcode {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push_new(Node::Tuple(items.into()))
            }
            b']' => self.push_new(Node::List(Vec::new())),
            b'a' => {
                let item = self.pop()?;
                self.append(&[item])
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.append(&items)
            }
            b'}' => self.push_new(Node::Dict(Vec::new())),
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.insert(&[key, value])
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.insert(&items)
            }
            _ => Ok(false),
        }
    }

    fn append(&mut self, items: &[Handle]) -> Result<bool, FormatError> {
        let list = self.top()?;
        let Node::List(list) = self.nodes.get_mut(list) else { return Err(self.unexpected("a list")) };
        list.extend_from_slice(items);
        Ok(true)
    }

    fn insert(&mut self, items: &[Handle]) -> Result<bool, FormatError> {
        let dict = self.top()?;
        let Node::Dict(dict) = self.nodes.get_mut(dict) else { return Err(self.unexpected("a dictionary")) };
        let (pairs, rest) = items.as_chunks();
        if !rest.is_empty() {
            return Err(self.unexpected("a value to every key"));
        }
        dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        Ok(true)
    }

    /// The memo: values kept for later use.
    fn memory(&mut self, opcode: u8, cursor: &mut Cursor<'_>) -> Result<bool, FormatError> {
        let (puts, number) = match opcode {
            b'q' => (true, u32::from(cursor.byte()?)),
            b'r' => (true, u32::from_le_bytes(cursor.array()?)),
            // The bounded count fits into 32 bits.
            0x94 => (true, self.memo.len() as u32),
            b'h' => (false, u32::from(cursor.byte()?)),
            b'j' => (false, u32::from_le_bytes(cursor.array()?)),
            _ => return Ok(false),
        };
        if puts {
            self.check_held(self.memo.len())?;
            let value = self.top()?;
            self.memo.insert(number, value);
            return Ok(true);
        }
        let value = self.memo.get(&number).copied();
        let value = value.ok_or_else(|| self.unexpected("a value that was kept before"))?;
        self.push(value)
    }

    /// Names, and the calls of named functions.
    fn call(&mut self, opcode: u8, cursor: &mut Cursor<'_>) -> Result<bool, FormatError> {
        match opcode {
            b'c' => {
                let (module, name) = (cursor.line()?, cursor.line()?);
                self.name(&String::from_utf8_lossy(&module), &String::from_utf8_lossy(&name))
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let text = |handle| self.nodes.text(handle).map(str::to_owned);
                let (Some(module), Some(name)) = (text(module), text(name)) else {
                    return Err(self.unexpected("the name of a function"));
                };
                self.name(&module, &name)
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let made = match self.nodes.get(function) {
                    Node::Global(function) => self.made(*function, arguments),
                    _ => None,
                };
                self.push_new(made.ok_or_else(|| self.unexpected("the parts of a tensor or a dictionary"))?)
            }
            // Attributes, such as the versions of a state dict's modules: not needed here.
            b'b' => self.pop().map(|_| true),
            b'Q' => {
                let parts = self.pop()?;
                let storage = self.storage(parts);
                let storage = storage.ok_or_else(|| self.unexpected("a storage of a tensor"))?;
                self.push_new(Node::Storage(Box::new(storage)))
            }
            _ => Ok(false),
        }
    }

    fn name(&mut self, module: &str, name: &str) -> Result<bool, FormatError> {
        let Some(global) = Global::find(module, name) else {
            return Err(FormatError::Forbidden { at: self.at, name: shown(&format!("{module}.{name}")) });
        };
        self.push_new(Node::Global(global))
    }

    /// The result of a known function; `None` if the arguments have the wrong types.
    fn made(&mut self, function: Global, arguments: Handle) -> Option<Node> {
        let arguments = self.nodes.tuple(arguments)?;
        match (function, arguments) {
            (Global::OrderedDict, []) => Some(Node::Dict(Vec::new())),
            // Python 2 gives the pairs.
            (Global::OrderedDict, [pairs]) => {
                let pairs = *pairs;
                self.nodes.take_pairs(pairs).map(Node::Dict)
            }
            (Global::RebuildTensor, [storage, offset, shape, strides, ..]) => {
                let Node::Storage(_) = self.nodes.get(*storage) else { return None };
                Some(Node::Tensor(Box::new(TensorNode {
                    storage: *storage,
                    offset: self.nodes.count(*offset)?,
                    shape: self.nodes.counts(*shape)?,
                    strides: self.nodes.counts(*strides)?,
                })))
            }
            (Global::RebuildParameter, [tensor, ..]) => match self.nodes.get(*tensor) {
                Node::Tensor(tensor) => Some(Node::Tensor(tensor.clone())),
                _ => None,
            },
            _ => None,
        }
    }

    /// A storage by its kind, its key, its device and the number of its elements.
    fn storage(&self, parts: Handle) -> Option<StorageNode> {
        let (parts, view) = match self.nodes.tuple(parts)? {
            [first @ .., view] if first.len() == 5 => (first, Some(view)),
            parts => (parts, None),
        };
        // A view of another storage, which PyTorch wrote before 0.4.
        if view.is_some_and(|view| *self.nodes.get(*view) != Node::Other) {
            return None;
        }
        let [what, kind, key, _device, elements] = parts else { return None };
        let Node::Global(Global::Storage(element)) = self.nodes.get(*kind) else { return None };
        let is_storage = self.nodes.text(*what) == Some("storage") && self.nodes.text(*key).is_some();
        let elements = self.nodes.count(*elements).filter(|_| is_storage)?;
        Some(StorageNode { element: *element, key: *key, elements })
    }
}

/// An integer of any length with the lowest byte first; `None` if it exceeds 64 bits.
fn long(bytes: &[u8]) -> Option<i64> {
    let mut all = [if bytes.last().is_some_and(|last| *last >= 0x80) { 0xff } else { 0 }; 8];
    all.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pickle(bytes: &[u8]) -> Result<Pickle, FormatError> {
        read(&mut Cursor::new(&bytes, 0, u64::MAX))
    }

    fn message(bytes: &[u8]) -> String {
        pickle(bytes).expect_err("it is refused").to_string()
    }

    #[test]
    fn integers_of_every_length_are_read() {
        for (bytes, expected) in [
            (&b"K\x07."[..], 7),
            (b"M\xff\xff.", 65_535),
            (b"J\xfe\xff\xff\xff.", -2),
            (b"\x8a\x00.", 0),
            (b"\x8a\x02\x00\x80.", -32_768),
            (b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", i64::MAX),
        ] {
            let pickle = pickle(bytes).unwrap();
            assert_eq!(*pickle.nodes.get(pickle.root), Node::Integer(expected), "{bytes:?}");
        }
        let huge = pickle(b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.").unwrap();
        assert_eq!(*huge.nodes.get(huge.root), Node::Other);
    }

    #[test]
    fn what_runs_code_is_refused_by_its_name_and_place() {
        let system = b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00ls\x85R.";
        let says = message(system);
        assert!(says.starts_with("byte 2: it asks for `posix.system`, which is no part"), "{says}");
        // Protocol 4 names a global this way.
        let says = message(b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93.");
        assert!(says.starts_with("byte 16: it asks for `os.system`"), "{says}");
        let says = message(b"c\x1b[2J\nx\n.");
        assert!(says.contains(r"`\u{1b}[2J.x`"), "{says}");
        // An object of a class, a call by instruction, a persistent number of protocol 0.
        for (bytes, opcode) in
            [(&b")\x81."[..], "0x81"), (b"(i", "0x69"), (b"P0\n", "0x50"), (b"\x82\x01", "0x82")]
        {
            let says = message(bytes);
            assert!(says.contains(&format!("the pickle's instruction {opcode}")), "{says}");
        }
    }

    #[test]
    fn a_program_that_makes_no_sense_is_refused() {
        for (bytes, says) in [
            (&b"."[..], "byte 0: expected a value that was made before"),
            (b"t", "byte 0: expected a mark that was made before"),
            (b"N(\x85", "byte 2: expected a value that was made before"),
            (b"K\x01h\x05", "byte 2: expected a value that was kept before"),
            (b"NNa", "byte 2: expected a list"),
            (b"NNNs", "byte 3: expected a dictionary"),
            (b"}(Nu", "byte 3: expected a value to every key"),
            (b"X\x05\x00\x00\x00ab", "byte 7: it ends within its pickle"),
            (b"U\x01\xff", "byte 0: expected a text in UTF-8"),
            (b"NQ", "byte 1: expected a storage of a tensor"),
            (b"N)R", "byte 2: expected the parts of a tensor or a dictionary"),
            (b"\x80", "byte 1: it ends within its pickle"),
        ] {
            assert_eq!(message(bytes), says, "{bytes:?}");
        }
    }

    /// A list that contains itself, then a hundred tuples that each hold the one before twice. A reader that copies values
    /// would need 2¹⁰⁰ bytes.
    #[test]
    fn what_holds_itself_or_doubles_costs_no_more_than_its_length() {
        let pickled = pickle(b"]q\x00h\x00a.").unwrap();
        assert_eq!(*pickled.nodes.get(pickled.root), Node::List(vec![pickled.root]));
        let mut bytes = b"Nq\x00".to_vec();
        for _ in 0..100 {
            bytes.extend(b"h\x00h\x00\x86q\x00");
        }
        bytes.push(b'.');
        assert!(pickle(&bytes).is_ok());
        let deep: Vec<u8> =
            b"]".repeat(100_000).into_iter().chain(b"a".repeat(99_999)).chain(*b".").collect();
        assert!(pickle(&deep).is_ok());
    }
}
