//! The attack `limits`: trains under limits of memory that plans say fit, and below them.
//!
//! A case draws a training. It is planned and trained without a limit; then within two limits of these: one that it fits
//! by plan, that it does not fit, that it runs out of, and that it may adapt to. Every fourth case limits the process instead.

mod process;
mod program;
mod shortage;
mod tally;
mod training;

use self::{
    tally::{End, Finding, Kind},
    training::Training,
};
use crate::{Arena, Case, Error, Outcome};

/// One case in so many is about limits of the process.
const PROCESS: usize = 4;

/// So many kinds of limits are tried on a training.
const KINDS: usize = 2;

/// Runs the attack.
pub(crate) fn run(arena: &Arena) -> Result<Outcome, Error> {
    let is_chosen = |kind: &Kind| kind.name().contains(&*arena.only);
    let kinds: Vec<_> = shortage::KINDS.into_iter().filter(is_chosen).collect();
    let found = arena.each("limits", arena.cases, |case| one(arena, case, &kinds))?;
    let mut skipped: Vec<String> = found.iter().flat_map(|(_, skipped)| skipped.clone()).collect();
    skipped.sort();
    skipped.dedup();
    let findings: Vec<_> = found.into_iter().flat_map(|(findings, _)| findings).collect();
    let [lowest, highest] = tally::plan_errors(findings.iter());
    let harm = |finding: &Finding| match &finding.end {
        End::Harm(harm) => Some(harm.clone()),
        End::Within | End::Refused => None,
    };
    let resumed = findings.iter().filter(|finding| finding.is_resumed).count();
    Ok(Outcome {
        titles: tally::TITLES.to_vec(),
        rows: tally::rows(&findings),
        figures: vec![
            ("lowest_plan", lowest),
            ("highest_plan", highest),
            ("trainings", findings.len().to_string()),
            ("resumed", resumed.to_string()),
        ],
        tried: arena.cases,
        harms: findings.iter().filter_map(harm).collect(),
        skipped,
    })
}

/// A case, and what this machine cannot do of it.
fn one(arena: &Arena, mut case: Case, kinds: &[Kind]) -> Result<(Vec<Finding>, Vec<String>), Error> {
    if case.number % PROCESS == PROCESS - 1 {
        if !Kind::Process.name().contains(&*arena.only) {
            return Ok(Default::default());
        }
        let (mut findings, skipped) = process::attack(arena, &mut case.random)?;
        findings.iter_mut().for_each(|finding| place(finding, &case, arena.seed, ""));
        return Ok((findings, skipped));
    }
    if kinds.is_empty() {
        return Ok(Default::default());
    }
    let strategy = shortage::strategy_of(case.number);
    let training = Training::draw(&mut case.random, strategy);
    // Two of them a case leave time for more trainings.
    let mut kinds = kinds.to_vec();
    case.random.shuffle(&mut kinds);
    kinds.truncate(KINDS);
    let mut findings = shortage::attack(arena, &training, &kinds, &mut case.random)?;
    findings.iter_mut().for_each(|finding| place(finding, &case, arena.seed, &training.config));
    Ok((findings, Vec::new()))
}

/// Adds to a harm where it happened.
fn place(finding: &mut Finding, case: &Case, seed: u64, config: &str) {
    if let End::Harm(harm) = &mut finding.end {
        let (kind, strategy) = (finding.kind.name(), finding.strategy.name());
        let config = config.trim_end().replace('\n', "; ");
        *harm =
            format!("case {} of seed {seed}, {strategy}, {kind}: {harm} [net.toml: {config}]", case.number);
    }
}
