//! Retired words, in code, documents and messages. docs/writing.md says what to write instead.

use oomph_tree::Tree;

use crate::{Finding, exceptions::unexcused, report, tree};

/// Names of types that were renamed, and names that say nothing without a noun before them.
const TYPES: [[&str; 2]; 23] = [
    ["Stretch", "Segments"],
    ["Lying", "PlacedModel"],
    ["Own", "CustomOp"],
    ["Way", "ConvAlgorithm"],
    ["Several", "MultiDevice"],
    ["Sharers", "Layout"],
    ["Held", "TensorLog"],
    ["Occasion", "ChoiceKey"],
    ["Circumstances", "OomContext"],
    ["Surroundings", "ProcessMemory"],
    ["Course", "PipelineTrace"],
    ["Unfinished", "StepUndo"],
    ["Machine", "AllocatorSim"],
    ["Lane", "Track"],
    ["LaneKind", "TrackKind"],
    ["LaneGuard", "TrackGuard"],
    ["Part", "ModelPart, or another noun before it"],
    ["Order", "RankCommand, SampleOrder, or another noun before it"],
    ["Place", "DeviceSlot, ExecutionPoint, or another noun before it"],
    ["Interval", "LossAccumulator, or another noun before it"],
    ["Schedule", "LrSchedule, PipelineOrder, or another noun before it"],
    ["State", "a noun before it"],
    ["Settings", "a noun before it"],
];
/// Functions and modules that were renamed.
const FUNCTIONS: [[&str; 2]; 5] = [
    ["told", "broadcast_text"],
    ["room", "uninit"],
    ["lane", "track"],
    ["lane_was", "track_was"],
    ["lying", "placed"],
];
/// Names of files that tell nothing of what is in them.
const FILES: [[&str; 2]; 12] = [
    ["parts.rs", "what the parts are of"],
    ["held.rs", "tensor_log.rs"],
    ["stretch.rs", "segments.rs"],
    ["several.rs", "multi_device.rs"],
    ["room.rs", "uninit.rs"],
    ["way.rs", "algorithm.rs"],
    ["own.rs", "custom_op.rs"],
    ["lying.rs", "placed_model.rs"],
    ["course.rs", "pipeline_trace.rs"],
    ["lane.rs", "track.rs"],
    ["lanes.rs", "tracks.rs"],
    ["told.rs", "broadcast.rs"],
];
/// Words of any text: code, comments, messages, pages. A word also counts as a part of an identifier.
const WORDS: [[&str; 2]; 4] =
    [["lane", "track"], ["lanes", "tracks"], ["sharers", "layout"], ["foretell", "predict"]];
/// Runs of words of any text.
const PHRASES: [[&str; 2]; 5] = [
    ["`device.cut`", "`device.split_points`"],
    ["\"device.cut\"", "\"device.split_points\""],
    ["device.cut=", "device.split_points="],
    ["is gone on with", "is kept, or continues"],
    ["what is done with goes", "tensors are freed at their last use"],
];

/// Here a lane is what NVIDIA calls so: one of the 32 threads of a warp.
const OF_WARPS: &str = "tools/ptx/";

/// Files whose words users and contributors read.
const ENDINGS: [&str; 6] = [".rs", ".md", ".py", ".toml", ".html", ".snap"];

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The parts of an identifier: `lane_ofLanes` has `lane`, `of`, `lanes`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in identifier.chars() {
        let is_start = letter == '_' || letter.is_uppercase();
        if is_start && parts.last().is_some_and(|part| part.chars().any(char::is_lowercase)) {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.iter_mut().last().into_iter().for_each(|part| part.push(letter));
        }
    }
    parts.iter().map(|part| part.to_lowercase()).collect()
}

fn retired(list: &[[&'static str; 2]], word: &str) -> Option<[&'static str; 2]> {
    list.iter().copied().find(|[retired, _]| *retired == word)
}

/// The retired words of a line of text, with what to write instead.
fn in_text(line: &str) -> Vec<[&'static str; 2]> {
    let lower = line.to_lowercase();
    let phrases = PHRASES.iter().copied().filter(|[phrase, _]| lower.contains(phrase));
    let words = line.split(|letter| !is_letter(letter)).flat_map(parts);
    phrases.chain(words.filter_map(|word| retired(&WORDS, &word))).collect()
}

/// The retired names that a line of Rust defines.
fn defined(line: &str) -> Vec<[&'static str; 2]> {
    let words: Vec<_> = line.split(|letter| !is_letter(letter)).filter(|word| !word.is_empty()).collect();
    let of_pair = |pair: &[&str]| match pair[0] {
        "struct" | "enum" | "trait" | "type" => retired(&TYPES, pair[1]),
        "fn" | "mod" => retired(&FUNCTIONS, pair[1]),
        _ => None,
    };
    let is_comment = line.trim_start().starts_with("//");
    words.windows(2).filter(|_| !is_comment).filter_map(of_pair).collect()
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = ENDINGS.iter().flat_map(|ending| tree.files("", ending));
    let is_read = |path: &str| !path.starts_with("tests/tidy/") && !path.starts_with(OF_WARPS);
    for (path, text) in files.filter(|(path, _)| is_read(path)) {
        let finding = |line, [word, instead]: [&str; 2]| {
            Finding::new(&path, line, format!("`{word}` is retired; write {instead}"))
                .named(word.trim_matches(['`', '"', '=']))
        };
        let name = path.rsplit('/').next().unwrap_or(&path);
        findings.extend(retired(&FILES, name).map(|it| finding(1, it)));
        let is_product = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
        for (line, content) in (1..).zip(text.lines()) {
            findings.extend(in_text(content).into_iter().map(|it| finding(line, it)));
            let defined = if is_product { defined(content) } else { Vec::new() };
            findings.extend(defined.into_iter().map(|it| finding(line, it)));
        }
    }
    findings
}

#[test]
fn retired_words_are_gone() {
    report("retired words", unexcused("retired words", findings(&tree::own())));
}

#[test]
fn retired_words_are_found_in_text_names_and_files() {
    let words = |line: &str| in_text(line).iter().map(|[word, _]| *word).collect::<Vec<_>>();
    assert_eq!(words("/// Each lane of the planes."), ["lane"]);
    assert_eq!(words("let of_lane = LanesOfDevice::new();"), ["lane", "lanes"]);
    assert_eq!(words("set `device.cut` to a stage"), ["`device.cut`"]);
    assert_eq!(words("What is done with goes at once."), ["what is done with goes"]);
    assert_eq!(words("let plane = explanes(device.cut(3));"), Vec::<&str>::new());
    let names = |line: &str| defined(line).iter().map(|[word, _]| *word).collect::<Vec<_>>();
    assert_eq!(names("pub(crate) struct Stretch<'a> {"), ["Stretch"]);
    assert_eq!(names("    enum State { A }"), ["State"]);
    assert_eq!(names("pub fn told(text: &str) {"), ["told"]);
    assert_eq!(names("pub struct LoaderState; fn foretold() {}"), Vec::<&str>::new());
    assert_eq!(names("/// A struct State of its own."), Vec::<&str>::new());
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("crates/x/src")).unwrap();
    std::fs::write(folder.path().join("crates/x/src/way.rs"), "fn room() {}\n").unwrap();
    let found: Vec<_> = findings(&Tree::new(folder.path())).iter().map(|it| it.name.clone()).collect();
    assert_eq!(found, ["way.rs", "room"]);
}
