//! What the driver reads of a PTX module before a launch: its version, its target, its kernels with their limits.

use std::sync::Arc;

use crate::{failure::Failure, machine::machine, settings::Mode};

/// A module's kernels.
pub(crate) struct Module {
    pub(crate) kernels: Vec<Kernel>,
    /// What runs, where kernels run.
    pub(crate) code: Option<Arc<oomph_ptx::Module>>,
    /// The buffers that each kernel accesses; none where the text uses what is not understood.
    accesses: Vec<oomph_ptx::KernelAccesses>,
}

/// A kernel and what its launch must obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The name of its entry.
    pub name: String,
    /// The most threads of a block, from `.maxntid` or `.reqntid`.
    pub most_threads: Option<u32>,
    /// Bytes of shared memory of fixed size.
    pub shared_bytes: u64,
}

/// The newest PTX version that the simulated driver reads: that of CUDA 13.5.
const NEWEST: (u32, u32) = (9, 5);

impl Module {
    /// Reads a module for a card of that compute capability. A kernel that cannot run is refused here: one that did
    /// nothing would be the fastest of all.
    pub(crate) fn load(text: &str, capability: (i32, i32)) -> Result<Self, Failure> {
        let kernels = kernels_for(text, capability)?;
        let accesses = oomph_ptx::accesses(text).unwrap_or_else(|error| {
            machine().log.line(format_args!("a module's buffers are not known: {error}"));
            Vec::new()
        });
        if machine().settings.mode == Mode::Count {
            return Ok(Self { kernels, code: None, accesses });
        }
        let code = oomph_ptx::Module::parse(text).map_err(|error| {
            eprintln!("cuda-sim: cannot run a kernel: {error}");
            machine().log.line(format_args!("refused a module: {error}"));
            Failure::InvalidPtx
        })?;
        Ok(Self { kernels, code: Some(Arc::new(code)), accesses })
    }

    /// The buffers that a kernel accesses, if its text is understood.
    pub(crate) fn accesses(&self, kernel: &str) -> Option<&oomph_ptx::KernelAccesses> {
        self.accesses.iter().find(|accesses| accesses.name == kernel)
    }
}

/// The kernels of a module, if a card of that compute capability can load it.
fn kernels_for(text: &str, capability: (i32, i32)) -> Result<Vec<Kernel>, Failure> {
    let version = value(text, ".version").and_then(numbers).ok_or(Failure::InvalidPtx)?;
    if version > NEWEST {
        return Err(Failure::UnsupportedPtxVersion);
    }
    let target = target(text).ok_or(Failure::InvalidPtx)?;
    if !is_for(target, capability).ok_or(Failure::InvalidPtx)? {
        return Err(Failure::NoBinaryForGpu);
    }
    Ok(kernels(text))
}

/// What a module was compiled for, as `sm_90a`.
pub fn target(text: &str) -> Option<&str> {
    value(text, ".target")?.split(',').next().map(str::trim)
}

/// What stands behind the first directive of that name.
fn value<'a>(text: &'a str, directive: &str) -> Option<&'a str> {
    text.lines()
        .map(without_comment)
        .find_map(|line| line.trim_start().strip_prefix(directive).map(str::trim))
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// `8.7` as `(8, 7)`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a card can load the target: any that is not newer than the card; `sm_90a` only on a card of just 9.0.
fn is_for(target: &str, (major, minor): (i32, i32)) -> Option<bool> {
    let number = target.strip_prefix("sm_")?;
    let (digits, suffix) =
        number.split_at(number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len()));
    let (wanted, card) = (digits.parse::<i32>().ok()?, 10 * major + minor);
    Some(match suffix {
        "" => wanted <= card,
        "f" => wanted <= card && wanted / 10 == major,
        _ => wanted == card,
    })
}

/// All kernels of a module: its `.entry` functions. Shared memory counts for all of them, as module-wide variables do.
pub fn kernels(text: &str) -> Vec<Kernel> {
    let text: Vec<&str> = text.lines().map(without_comment).collect();
    let text = text.join("\n");
    let shared_bytes = shared(&text);
    let heads = text.split(".entry").skip(1);
    heads
        .map(|head| {
            let head = head.split('{').next().unwrap_or_default();
            let name = head.split(['(', '\n', ' ', '\t']).find(|part| !part.is_empty()).unwrap_or_default();
            let limit = [".reqntid", ".maxntid"].into_iter().find_map(|directive| threads(head, directive));
            Kernel { name: name.to_owned(), most_threads: limit, shared_bytes }
        })
        .collect()
}

/// The product of the directive's numbers.
fn threads(head: &str, directive: &str) -> Option<u32> {
    let (_, rest) = head.split_once(directive)?;
    let line = rest.lines().next()?;
    line.split(',').map(|number| number.trim().parse::<u32>().ok()).product()
}

/// Bytes of `.shared` variables with a size; `extern` ones get theirs at the launch.
fn shared(text: &str) -> u64 {
    let sized = |statement: &str| {
        let statement = statement.trim();
        if statement.contains(".extern") {
            return None;
        }
        let (_, declaration) = statement.rsplit_once(".shared")?;
        let width =
            declaration.split_whitespace().find_map(|word| word.strip_prefix(['.']).and_then(width))?;
        let count = declaration.split_once('[').and_then(|(_, rest)| rest.split(']').next()?.parse().ok());
        Some(width * count.unwrap_or(1))
    };
    text.split([';', '{', '}']).filter_map(sized).sum()
}

/// Bytes of a type such as `b8` or `f32`.
fn width(name: &str) -> Option<u64> {
    let bits: u64 = name.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    Some(bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "//\n// Generated by NVRTC\n.version 8.7\n.target sm_80\n.address_size 64\n\
        .extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 tile[4096];\n\
        .visible .entry add_kernel(\n\t.param .u64 a\n)\n.maxntid 32, 8, 1\n{\n\t.shared .f32 row[16];\n\tret;\n}\n\
        .visible .entry other()\n{\n\tret;\n}\n";

    #[test]
    fn kernels_are_found_with_their_limits() {
        let kernels = kernels_for(MODULE, (8, 6)).unwrap();
        let kernel =
            |name: &str, most_threads| Kernel { name: name.to_owned(), most_threads, shared_bytes: 4_160 };
        assert_eq!(kernels, [kernel("add_kernel", Some(256)), kernel("other", None)]);
        assert_eq!(target(MODULE), Some("sm_80"));
    }

    #[test]
    fn a_card_refuses_what_was_compiled_for_a_newer_one() {
        assert_eq!(kernels_for(MODULE, (7, 5)), Err(Failure::NoBinaryForGpu));
        let with = |target: &str| MODULE.replace("sm_80", target);
        assert!(kernels_for(&with("sm_90a"), (9, 0)).is_ok());
        assert_eq!(kernels_for(&with("sm_90a"), (10, 0)), Err(Failure::NoBinaryForGpu));
        assert_eq!(kernels_for(&with("sm_100f"), (12, 0)), Err(Failure::NoBinaryForGpu));
        assert_eq!(kernels_for("no PTX", (9, 0)), Err(Failure::InvalidPtx));
        let newer = MODULE.replace(".version 8.7", ".version 10.0");
        assert_eq!(kernels_for(&newer, (9, 0)), Err(Failure::UnsupportedPtxVersion));
    }
}
