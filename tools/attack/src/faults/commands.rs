//! The commands whose system calls fail, and what they do undisturbed.

use std::{collections::BTreeMap, io::Write, path::Path, time::Duration};

use flate2::{Compression, Crc, write::ZlibEncoder};

use super::{
    fault::{self, Kind},
    files::Files,
};
use crate::{
    Answer, Arena, Error, Folder, Program,
    recipe::RECIPES,
    trace::{self, Action, Options},
};

/// A command.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// The recipe of `x.toml`, or `text`.
    recipe: &'static str,
    /// What is run before, each undisturbed.
    before: &'static [&'static str],
    words: &'static str,
    /// What is run after a fault, and must do all that the fault prevented.
    again: &'static str,
}

const fn command(
    name: &'static str,
    recipe: &'static str,
    before: &'static [&'static str],
    words: &'static str,
    again: &'static str,
) -> Command {
    Command { name, recipe, before, words, again }
}

const TRAIN: &str = "train --config x.toml --json";
const PLAIN: &str = "train --config x.toml";
const RESUME: &str = "train --config x.toml --json --resume";
const HALF: &[&str] = &["train --config x.toml --set train.steps=5"];
const WHOLE: &[&str] = &[PLAIN];

/// All of them.
pub(super) const COMMANDS: &[Command] = &[
    command("train", "lstm", &[], TRAIN, RESUME),
    command("train, as text", "lstm", &[], PLAIN, RESUME),
    command("train", "resnet", &[], TRAIN, RESUME),
    command("train", "fp16", &[], TRAIN, RESUME),
    command("train", "text", &[], TRAIN, RESUME),
    command("train on two devices", "ddp", &[], TRAIN, RESUME),
    command("train on two devices", "pipeline", &[], TRAIN, RESUME),
    command("train --resume", "lstm", HALF, RESUME, RESUME),
    command("train --resume", "adamw", HALF, RESUME, RESUME),
    command("train --resume", "text", HALF, RESUME, RESUME),
    command("train --resume on two devices", "ddp-adam", HALF, RESUME, RESUME),
    command(
        "export",
        "lstm",
        WHOLE,
        "export run --to w.safetensors --json",
        "export run --to w.safetensors --force",
    ),
    command(
        "export --force",
        "resnet",
        &[PLAIN, "export run --to w.safetensors --layout oomph"],
        "export run --to w.safetensors --force",
        "export run --to w.safetensors --force",
    ),
    command(
        "plan --html --svg",
        "resnet",
        &[],
        "plan --config x.toml --batch 2 --html p.html --svg p.svg --json",
        "plan --config x.toml --batch 2 --html p.html --svg p.svg --force",
    ),
    command(
        "plan --html --force",
        "lstm",
        &["plan --config x.toml --batch 4 --html p.html"],
        "plan --config x.toml --batch 2 --html p.html --force",
        "plan --config x.toml --batch 2 --html p.html --force",
    ),
    command(
        "profile",
        "lstm",
        &[],
        "profile --config x.toml --warmup 1 --steps 1 --out p",
        "profile --config x.toml --warmup 1 --steps 1 --out p --force",
    ),
    command(
        "profile --html --svg",
        "resnet",
        &[],
        "profile --config x.toml --warmup 1 --steps 1 --html p.html --svg p.svg --json",
        "profile --config x.toml --warmup 1 --steps 1 --html p.html --svg p.svg --force",
    ),
    command(
        "compare --html",
        "lstm",
        &[],
        "compare --config x.toml --batches 2,4 --steps 3 --html c.html",
        "compare --config x.toml --batches 2,4 --steps 3 --html c.html --force",
    ),
    command(
        "find-batch --write",
        "lstm",
        &[],
        "find-batch --config x.toml --max 4 --write",
        "find-batch --config x.toml --max 4 --write",
    ),
    command("evaluate", "lstm", WHOLE, "evaluate --config x.toml --json", "evaluate --config x.toml --json"),
    command(
        "predict images",
        "resnet",
        WHOLE,
        "predict --config x.toml a.png",
        "predict --config x.toml a.png",
    ),
    command(
        "predict a text",
        "text",
        WHOLE,
        "predict --config x.toml --prompt the --length 9 --json",
        "predict --config x.toml --prompt the --length 9 --json",
    ),
    command("runs", "lstm", WHOLE, "runs run", "runs run --json"),
    command("config", "lstm", &[], "config --config x.toml", "config --config x.toml --json"),
    command("summary", "resnet", &[], "summary --config x.toml", "summary --config x.toml"),
    command("doctor", "lstm", &[], "doctor", "doctor"),
];

const TEXT: &str = "model = { name = 'lstm-lm', hidden = 8 }\n\
    data = { source = 'text', path = 't.txt', steps = 8, workers = 1 }\n\
    train = { batch = 8, steps = 9, eval_every = '3 steps' }\n\
    run = { directory = 'run', save_every = '2 steps', keep_last = 2, histograms = '2 steps' }\n";
/// Commands that print times, or the memory that the machine has free.
const OF_MACHINE: [&str; 5] = ["plan", "profile", "compare", "find-batch", "doctor"];
/// No traced command takes longer.
const LIMIT: Duration = Duration::from_secs(120);

/// A command with its template, and what it does undisturbed.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) command: &'static Command,
    template: Folder,
    pub(super) before: Files,
    /// What two undisturbed runs left alike, standard output included.
    pub(super) steady: Files,
    /// What they left; names tell more than content does.
    pub(super) after: Files,
    pub(super) stdout: Vec<u8>,
    pub(super) errors: String,
    /// How often it makes calls of each kind.
    pub(super) calls: Vec<(&'static Kind, usize)>,
}

/// The name of standard output among the files.
pub(super) const OUTPUT: &str = "standard output";

impl Command {
    /// Whether its output is another one on a busy machine.
    fn tells_of_machine(&self) -> bool {
        OF_MACHINE.iter().any(|name| self.words.split(' ').next() == Some(name))
    }

    /// Its name in a report of a harm.
    pub(super) fn label(&self) -> String {
        format!("`oomph {}` with the recipe {}", self.words, self.recipe)
    }

    pub(super) fn is_training(&self) -> bool {
        self.words.starts_with("train")
    }

    fn config(&self) -> Result<String, Error> {
        if self.recipe == "text" {
            return Ok(TEXT.into());
        }
        let recipe = RECIPES.iter().find(|recipe| recipe.name == self.recipe);
        let recipe = recipe.ok_or_else(|| format!("no recipe is called `{}`", self.recipe))?;
        Ok(recipe.config("steps = 9, eval_every = '3 steps'", "save_every = '2 steps', keep_last = 2"))
    }

    fn template(&self, arena: &Arena) -> Result<Folder, Error> {
        let folder = arena.folder()?;
        folder.write("x.toml", self.config()?)?;
        folder.write("t.txt", "the quick brown fox jumps over the lazy dog. ".repeat(40))?;
        folder.write("a.png", picture()?)?;
        for words in self.before {
            let answer = program(arena, folder.path(), words).run()?;
            if !answer.is_success() {
                return Err(format!("`oomph {words}` fails undisturbed: {}", answer.last_words()).into());
            }
        }
        Ok(folder)
    }
}

impl Prepared {
    /// Runs a command undisturbed, twice.
    pub(super) fn new(arena: &Arena, command: &'static Command) -> Result<Self, Error> {
        let template = command.template(arena)?;
        let mut prepared = Self {
            command,
            before: Files::read(template.path())?,
            template,
            steady: Files::default(),
            after: Files::default(),
            stdout: Vec::new(),
            errors: String::new(),
            calls: Vec::new(),
        };
        let mut counts = BTreeMap::<&str, (&'static Kind, usize)>::new();
        let mut count = |kind: &'static Kind, _: &trace::Call| {
            counts.entry(kind.name).or_insert((kind, 0)).1 += 1;
            Action::Continue
        };
        let (answer, first) = prepared.undisturbed(arena, &mut count)?;
        let (_, second) = prepared.undisturbed(arena, &mut |_, _| Action::Continue)?;
        prepared.steady = first.alike(&second);
        if command.tells_of_machine() {
            prepared.steady.0.remove(OUTPUT);
        }
        prepared.calls = counts.into_values().collect();
        prepared.errors = answer.errors();
        prepared.stdout = answer.stdout;
        prepared.after = first;
        Ok(prepared)
    }

    fn undisturbed(
        &self,
        arena: &Arena,
        on_call: &mut dyn FnMut(&'static Kind, &trace::Call) -> Action,
    ) -> Result<(Answer, Files), Error> {
        let folder = self.folder(arena)?;
        let answer = self.disturbed(arena, &folder, on_call)?;
        if !answer.is_success() || answer.harm().is_some() {
            return Err(format!("{} fails undisturbed: {}", self.command.label(), answer.last_words()).into());
        }
        let mut files = Files::read(folder.path())?;
        files.0.insert(OUTPUT.into(), answer.stdout.clone());
        Ok((answer, files))
    }

    /// A copy of the template.
    pub(super) fn folder(&self, arena: &Arena) -> Result<Folder, Error> {
        let folder = arena.folder()?;
        self.before.write(folder.path())?;
        Ok(folder)
    }

    /// Runs the command in a folder, and asks about each call that may fail. The calls of the dynamic loader, which come
    /// before the first that is about the folder or the system, are let through.
    pub(super) fn disturbed(
        &self,
        arena: &Arena,
        folder: &Folder,
        on_call: &mut dyn FnMut(&'static Kind, &trace::Call) -> Action,
    ) -> Result<Answer, Error> {
        let options = Options { calls: &fault::CALLS, records_data: false, limit: LIMIT };
        let program = program(arena, folder.path(), self.command.words);
        let traced =
            trace::run(program, options, &mut |_, call| match fault::kind_of(call, folder.path()) {
                Some(kind) => on_call(kind, call),
                None => Action::Continue,
            })?;
        Ok(traced.answer)
    }

    /// Runs the command again, undisturbed.
    pub(super) fn again(&self, arena: &Arena, folder: &Folder) -> Result<Answer, Error> {
        Ok(program(arena, folder.path(), self.command.again).run()?)
    }

    /// The template's folder, for what is compared with it.
    pub(super) fn template(&self) -> &Path {
        self.template.path()
    }
}

fn program(arena: &Arena, folder: &Path, words: &str) -> Program {
    arena.oomph(folder).arguments(words.split(' '))
}

/// A grey picture of 8 × 8 pixels, as PNG.
fn picture() -> Result<Vec<u8>, Error> {
    const SIZE: u8 = 8;
    let mut pixels = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in 0..SIZE {
        // Each row begins with the number of its filter.
        pixels.write_all(&[0])?;
        pixels.write_all(&std::array::from_fn::<u8, { SIZE as usize }, _>(|column| {
            row * SIZE + column as u8
        }))?;
    }
    let head = [0, 0, 0, SIZE, 0, 0, 0, SIZE, 8, 0, 0, 0, 0];
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, content) in [(b"IHDR", head.to_vec()), (b"IDAT", pixels.finish()?), (b"IEND", Vec::new())] {
        let mut sum = Crc::new();
        sum.update(name);
        sum.update(&content);
        file.extend((content.len() as u32).to_be_bytes());
        file.extend(name);
        file.extend(content);
        file.extend(sum.sum().to_be_bytes());
    }
    Ok(file)
}
