//! A training that is killed again and again.

use std::time::Duration;

use oomph_core::Generator;

use super::{
    checks::{self, Told},
    reference::{ARGUMENTS, CALLS, LIMIT, Reference, call_names, changes, events},
};
use crate::{
    Answer, Arena, Case, Error, Folder,
    trace::{self, Action, Moment, Options},
};

/// A kill, with what was found after it.
#[derive(Debug)]
pub(super) struct Kill {
    /// Where: the name of its row.
    pub(super) kind: &'static str,
    pub(super) is_during_save: bool,
    /// If the training was resumed to its end after this kill: whether it ended with the bytes of an unbroken one.
    pub(super) is_equal: Option<bool>,
    pub(super) harms: Vec<String>,
}

/// When a training is to be killed.
#[derive(Clone, Copy, Debug)]
enum Plan {
    After(Duration),
    /// At the call of this place in [`CALLS`], the `nth` of its name, before or after it executes.
    Call {
        place: usize,
        nth: usize,
        is_after: bool,
    },
}

/// A chain.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    arena: &'a Arena,
    reference: &'a Reference,
    number: usize,
    random: &'a mut Generator,
    folder: Folder,
    told: Told,
    kills: Vec<Kill>,
}

/// One kill in so many is followed by commands that read the run.
const READ_EVERY: usize = 5;
/// A chain whose kills come too late this often, for each kill that did not, meets something else.
const MOST_TRIES: usize = 20;

impl<'a> Chain<'a> {
    pub(super) fn new(arena: &'a Arena, reference: &'a Reference, case: &'a mut Case) -> Result<Self, Error> {
        let (number, random, folder) = (case.number, &mut case.random, fresh(arena, reference)?);
        Ok(Self { arena, reference, number, random, folder, told: Told::default(), kills: Vec::new() })
    }

    /// Kills it so often, and resumes it to its end.
    pub(super) fn run(mut self, kills: usize) -> Result<Vec<Kill>, Error> {
        let mut tries = 0;
        while self.kills.len() < kills {
            tries += 1;
            if tries > kills * MOST_TRIES {
                return Err(format!(
                    "chain {} of {}: no kill comes in time",
                    self.number, self.reference.name
                )
                .into());
            }
            if let Some(answer) = self.kill()? {
                // It came too late: this training is over, and the next begins.
                self.end(&answer)?;
                self.folder = fresh(self.arena, self.reference)?;
                self.told = Told::default();
            }
        }
        let answer = self.resumed().run()?;
        self.end(&answer)?;
        Ok(self.kills)
    }

    fn resumed(&self) -> crate::Program {
        self.arena.oomph(self.folder.path()).arguments(ARGUMENTS).arguments(["--resume"])
    }

    /// Starts or resumes the training and kills it. Gives its answer if it ended before.
    fn kill(&mut self) -> Result<Option<Answer>, Error> {
        let plan = self.plan();
        let (kind, answer, is_killed) = match plan {
            Plan::After(time) => {
                let answer = self.resumed().within(time).run()?;
                let is_killed = answer.status.is_none();
                ("at a random moment", answer, is_killed)
            }
            Plan::Call { place, nth, is_after } => {
                let (_, before, after) = CALLS[place];
                let (answer, is_killed) = self.kill_at_call(CALLS[place].0, nth, is_after)?;
                (if is_after { after } else { before }, answer, is_killed)
            }
        };
        let saved = events(&answer)
            .iter()
            .rev()
            .find(|it| it["event"] == "checkpoint")
            .and_then(|it| it["step"].as_u64());
        self.told.saved = self.told.saved.max(saved);
        if !is_killed {
            return Ok(Some(answer));
        }
        let run = self.folder.at("run");
        let mut problems = checks::after_kill(&run, self.reference, &self.told)?;
        if self.kills.len() % READ_EVERY == READ_EVERY - 1 {
            problems.extend(checks::as_oomph_reads(self.arena, self.folder.path(), self.reference)?);
        }
        let is_during_save = checks::has_leftovers(&run)?;
        self.kills.push(Kill { kind, is_during_save, is_equal: None, harms: Vec::new() });
        self.add(problems, &format!("{plan:?}"));
        Ok(None)
    }

    fn plan(&mut self) -> Plan {
        let possible: Vec<_> =
            (0..CALLS.len()).filter(|place| self.reference.calls.contains_key(CALLS[*place].0)).collect();
        if possible.is_empty() || self.random.chance(0.3) {
            return Plan::After(self.reference.wall.mul_f32(self.random.uniform()));
        }
        let place = possible[self.random.below(possible.len())];
        let most = self.reference.calls[CALLS[place].0] as f32;
        // Each training goes on where the last was killed, so early calls leave something for later kills.
        let nth = (most.ln() * self.random.uniform()).exp().round() as usize;
        Plan::Call { place, nth, is_after: self.random.chance(0.5) }
    }

    fn kill_at_call(&self, name: &str, nth: usize, is_after: bool) -> Result<(Answer, bool), Error> {
        let options = Options { calls: &call_names(), records_data: false, limit: LIMIT };
        let mut seen = 0;
        let traced = trace::run(self.resumed(), options, &mut |moment, call| {
            if call.name != name || !changes(call, self.folder.path()) {
                return Action::Continue;
            }
            if moment != Moment::Before {
                return Action::Kill;
            }
            seen += 1;
            match (seen == nth, is_after) {
                (false, _) => Action::Continue,
                (true, false) => Action::Kill,
                (true, true) => Action::Watch,
            }
        })?;
        Ok((traced.answer, traced.is_killed))
    }

    /// Checks a training that ended by itself, for the last kill before it.
    fn end(&mut self, answer: &Answer) -> Result<(), Error> {
        let run = self.folder.at("run");
        let mut problems: Vec<_> = answer.harm().into_iter().collect();
        if !answer.is_success() {
            problems.push(format!("the resumed training fails: {}", answer.last_words()));
        } else {
            problems.extend(checks::after_kill(&run, self.reference, &self.told)?);
            problems.extend(checks::at_end(&run, self.reference)?);
        }
        if let Some(kill) = self.kills.last_mut() {
            kill.is_equal = Some(problems.is_empty());
        }
        if self.kills.is_empty() && !problems.is_empty() {
            return Err(format!("a training without kills: {}", problems.join("; ")).into());
        }
        self.add(problems, "resumed to the end");
        Ok(())
    }

    /// Adds what was wrong to the last kill.
    fn add(&mut self, problems: Vec<String>, what: &str) {
        let (number, seed, name, count) =
            (self.number, self.arena.seed, &self.reference.name, self.kills.len());
        if problems.is_empty() {
            return;
        }
        let problems = problems.join("; ");
        let harm = format!("chain {number}, seed {seed}, {name}, kill {count}, {what}: {problems}");
        if let Some(kill) = self.kills.last_mut() {
            kill.harms.push(harm);
        }
    }
}

fn fresh(arena: &Arena, reference: &Reference) -> Result<Folder, Error> {
    let folder = arena.folder()?;
    folder.write("x.toml", &reference.config)?;
    Ok(folder)
}
