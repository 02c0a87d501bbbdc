use std::{
    collections::{BTreeMap, HashMap},
    io::{self, BufWriter, Write},
};

use oomph_core::Phase;

use super::{
    pickle::{Note, Pickler},
    placement::{Action, Placement, Segment, actions},
};
use crate::{
    block::Block,
    category::Category,
    names::Name,
    timeline::{Clock, Timeline},
};

/// Writes a memory snapshot in PyTorch's pickle format. PyTorch's `memory_viz` viewer and `_memory_viz.py` open it.
///
/// - Each block is an `alloc`, followed by a `free_requested` and a `free_completed` if it was freed. A change of category is a
///   free and an `alloc` at the same address and time.
/// - Frames give its origin, the innermost first: operation and tensor (`name`) in their scope (`filename`), then the
///   phase. `line` is 0: these are not lines of code.
/// - Addresses are those of the measurement. A plan has none: its blocks are placed by best fit, so the gaps that a
///   viewer shows as fragmentation are no prediction.
/// - Times are microseconds; one operation of a plan counts as 1 µs.
/// - Categories are those of oomph, except that [`Category::Other`] is PyTorch's `unknown`.
/// - Each of several timelines is the trace of one device, in their order.
///
/// # Errors
/// Errors of `out`.
pub fn snapshot(timelines: &[&Timeline], out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let mut devices: Vec<_> = match timelines {
        [timeline] => vec![Content::new(timeline, device_index(&timeline.device))],
        several => (0..).zip(several).map(|(device, timeline)| Content::new(timeline, device)).collect(),
    };
    let mut pickler = Pickler::new(&mut out)?;
    write(&mut devices, &mut pickler)?;
    pickler.end()?;
    out.flush()
}

/// The device index, such as 1 for `cuda:1`; 0 if there is none. A snapshot has a trace for each device up to the last.
fn device_index(device: &str) -> u64 {
    let number = device.rsplit_once(':').and_then(|(_, number)| number.parse().ok());
    number.filter(|&number| number < 1024).unwrap_or(0)
}

/// The category of segments' events. The viewer fails on a snapshot that has categories but no `unknown`.
const UNKNOWN: &str = "unknown";

fn category_name(category: Category) -> &'static str {
    match category {
        Category::Other => UNKNOWN,
        known => known.name(),
    }
}

fn write(devices: &mut [Content<'_>], pickler: &mut Pickler<'_>) -> io::Result<()> {
    pickler.dict(|it| {
        it.text("segments")?;
        let segments: Vec<_> = devices
            .iter()
            .enumerate()
            .flat_map(|(at, content)| content.placement.segments.iter().map(move |segment| (at, *segment)))
            .collect();
        it.list(segments, |it, (at, segment)| devices[at].segment(it, segment))?;
        it.text("device_traces")?;
        let last = devices.iter().map(|content| content.device).max().unwrap_or(0);
        it.list(0..=last, |it, device| match devices.iter_mut().find(|content| content.device == device) {
            Some(content) => content.trace(it),
            None => it.list([], Pickler::number),
        })?;
        it.text("allocator_settings")?;
        settings(it)
    })
}

/// The data of one device.
struct Content<'a> {
    timeline: &'a Timeline,
    placement: Placement,
    actions: Vec<Action>,
    device: u64,
    /// Frames already written, by operation, tensor, scope and phase.
    frames: HashMap<(Name, Name, Name, Phase), Note>,
}

impl<'a> Content<'a> {
    fn new(timeline: &'a Timeline, device: u64) -> Self {
        let actions = actions(timeline);
        let placement = Placement::new(timeline, &actions);
        Self { timeline, placement, actions, device, frames: HashMap::new() }
    }

    /// The final state of a segment.
    fn segment(&mut self, pickler: &mut Pickler<'_>, segment: Segment) -> io::Result<()> {
        let end = segment.address.saturating_add(segment.bytes);
        let alive: Vec<(u64, usize)> =
            self.alive().range(segment.address..end).map(|(&address, &block)| (address, block)).collect();
        let used = alive.iter().map(|&(_, block)| self.timeline.blocks[block].bytes).sum();
        pickler.dict(|it| {
            entry(it, "device", self.device)?;
            entry(it, "address", segment.address)?;
            entry(it, "total_size", segment.bytes)?;
            for size in ["allocated_size", "active_size", "requested_size"] {
                entry(it, size, used)?;
            }
            entry(it, "stream", 0)?;
            // PyTorch's small segments have 2 MiB.
            text(it, "segment_type", if segment.bytes > 2 << 20 { "large" } else { "small" })?;
            it.text("segment_pool_id")?;
            it.pair_of_zeros()?;
            it.text("is_expandable")?;
            it.no()?;
            self.frames(it, None)?;
            it.text("blocks")?;
            let pieces = pieces(segment, &alive, |block| self.timeline.blocks[block].bytes);
            it.list(pieces, |it, piece| self.piece(it, piece))
        })
    }

    /// Blocks never freed, by address.
    fn alive(&self) -> BTreeMap<u64, usize> {
        let mut alive = BTreeMap::new();
        for action in &self.actions {
            let address = self.placement.addresses[action.block];
            match action.is_free {
                true => alive.remove(&address),
                false => alive.insert(address, action.block),
            };
        }
        alive
    }

    fn piece(&mut self, pickler: &mut Pickler<'_>, piece: Piece) -> io::Result<()> {
        pickler.dict(|it| {
            entry(it, "address", piece.address)?;
            entry(it, "size", piece.bytes)?;
            entry(it, "requested_size", if piece.block.is_some() { piece.bytes } else { 0 })?;
            text(it, "state", if piece.block.is_some() { "active_allocated" } else { "inactive" })?;
            self.frames(it, piece.block)
        })
    }

    fn trace(&mut self, pickler: &mut Pickler<'_>) -> io::Result<()> {
        let segments = self.placement.segments.iter().map(|&Segment { address, bytes }| {
            let piece = Piece { address, bytes, block: None };
            Entry { action: "segment_alloc", event: 0, piece, category: Some(UNKNOWN) }
        });
        let mut entries: Vec<Entry> = segments.collect();
        for &Action { event, block, is_free } in &self.actions {
            let &Block { bytes, category, .. } = &self.timeline.blocks[block];
            let piece = Piece { address: self.placement.addresses[block], bytes, block: Some(block) };
            let category = (!is_free).then(|| category_name(category));
            let actions: &[_] = if is_free { &["free_requested", "free_completed"] } else { &["alloc"] };
            entries.extend(actions.iter().map(|action| Entry { action, event, piece, category }));
        }
        pickler.list(entries, |it, entry| it.dict(|it| self.entry(it, entry)))
    }

    fn entry(&mut self, pickler: &mut Pickler<'_>, trace_entry: Entry) -> io::Result<()> {
        let Entry { action, event, piece, category } = trace_entry;
        text(pickler, "action", action)?;
        entry(pickler, "addr", piece.address)?;
        entry(pickler, "size", piece.bytes)?;
        entry(pickler, "time_us", self.time_us(event))?;
        self.frames(pickler, piece.block)?;
        category.map_or(Ok(()), |category| text(pickler, "category", category))?;
        entry(pickler, "stream", 0)
    }

    fn time_us(&self, event: u32) -> u64 {
        let time = self.timeline.times.get(event as usize).copied().unwrap_or_default();
        match self.timeline.clock {
            Clock::Operations => time,
            Clock::Nanoseconds => time / 1_000,
        }
    }

    /// Writes the entry `frames`, empty if it is not of a block.
    fn frames(&mut self, pickler: &mut Pickler<'_>, block: Option<usize>) -> io::Result<()> {
        pickler.text("frames")?;
        let Some(block) = block else { return pickler.list([], Pickler::number) };
        let block = &self.timeline.blocks[block];
        let key = (block.operation, block.tensor, block.scope, block.phase);
        if let Some(&note) = self.frames.get(&key) {
            return pickler.again(note);
        }
        let names = &self.timeline.names;
        let known = [block.operation, block.tensor].map(|name| names.text(name));
        let scope = names.text(block.scope);
        let known = known.into_iter().filter(|name| !name.is_empty()).map(|name| (name, scope));
        let only_scope =
            known.clone().next().is_none().then_some((scope, scope)).filter(|_| !scope.is_empty());
        let frames = known.chain(only_scope).chain([(block.phase.name(), "phase")]);
        pickler.list(frames, |it, (name, filename)| {
            it.dict(|it| {
                text(it, "name", name)?;
                text(it, "filename", filename)?;
                entry(it, "line", 0)
            })
        })?;
        let note = pickler.note()?;
        self.frames.insert(key, note);
        Ok(())
    }
}

struct Entry {
    /// PyTorch's name of it.
    action: &'static str,
    event: u32,
    /// A block, or a whole segment.
    piece: Piece,
    category: Option<&'static str>,
}

/// A part of a segment: a block, or a gap between blocks.
#[derive(Clone, Copy)]
struct Piece {
    address: u64,
    bytes: u64,
    block: Option<usize>,
}

/// The blocks of a segment and the gaps between them. Together they cover the segment.
fn pieces(segment: Segment, alive: &[(u64, usize)], bytes: impl Fn(usize) -> u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut address = segment.address;
    let end = segment.address.saturating_add(segment.bytes);
    for &(start, block) in alive {
        if start > address {
            pieces.push(Piece { address, bytes: start - address, block: None });
        }
        pieces.push(Piece { address: start, bytes: bytes(block), block: Some(block) });
        address = start.saturating_add(bytes(block));
    }
    if end > address {
        pieces.push(Piece { address, bytes: end - address, block: None });
    }
    pieces
}

fn entry(pickler: &mut Pickler<'_>, key: &str, number: u64) -> io::Result<()> {
    pickler.text(key)?;
    pickler.number(number)
}

fn text(pickler: &mut Pickler<'_>, key: &str, text: &str) -> io::Result<()> {
    pickler.text(key)?;
    pickler.text(text)
}

/// The default settings of PyTorch's allocator. Viewers require the keys.
fn settings(pickler: &mut Pickler<'_>) -> io::Result<()> {
    pickler.dict(|it| {
        text(it, "PYTORCH_CUDA_ALLOC_CONF", "")?;
        for number in ["max_split_size", "garbage_collection_threshold"] {
            entry(it, number, 0)?;
        }
        entry(it, "pinned_num_register_threads", 1)?;
        for switch in ["expandable_segments", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register"] {
            it.text(switch)?;
            it.no()?;
        }
        it.text("roundup_power2_divisions")?;
        it.dict(|_| Ok(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{export::tests::sample, timeline::Origin};

    #[test]
    fn the_device_index_is_the_number_in_its_name() {
        for (device, index) in [("cpu", 0), ("cuda:0", 0), ("cuda:3", 3), ("x:99999999", 0), ("", 0)] {
            assert_eq!(device_index(device), index, "{device}");
        }
    }

    #[test]
    fn pieces_sum_up_to_the_segment() {
        let segment = Segment { address: 100, bytes: 50 };
        let pieces = pieces(segment, &[(110, 0), (120, 1)], |_| 10);
        let found: Vec<_> = pieces.iter().map(|it| (it.address, it.bytes, it.block)).collect();
        assert_eq!(found, [(100, 10, None), (110, 10, Some(0)), (120, 10, Some(1)), (130, 20, None)]);
    }

    #[test]
    fn it_is_a_pickle_of_protocol_2() {
        for origin in [Origin::Planned, Origin::Measured] {
            let mut out = Vec::new();
            snapshot(&[&sample::step(origin)], &mut out).unwrap();
            assert_eq!((&out[..2], out.last()), (&b"\x80\x02"[..], Some(&b'.')));
            let text = String::from_utf8_lossy(&out).into_owned();
            for expected in ["segment_alloc", "free_requested", "fc.weight", "optimizer state", "unknown"] {
                assert!(text.contains(expected), "{expected}");
            }
        }
    }

    #[test]
    fn an_empty_timeline_has_a_snapshot_too() {
        let mut out = Vec::new();
        snapshot(&[&sample::empty(Origin::Measured)], &mut out).unwrap();
        assert!(!out.is_empty());
    }
}
