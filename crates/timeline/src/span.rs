use crate::Name;

/// The level of a [`Span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// An optimizer step, or an evaluation batch.
    Step,
    /// A phase within a step.
    Phase,
    /// A stage within a phase.
    Stage,
}

/// A named range of events, from `start` to before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its level.
    pub kind: SpanKind,
    /// Its name: `step 3`, `backward`, `layer1.0`.
    pub name: Name,
    /// The first event in it.
    pub start: u32,
    /// The first event after it.
    pub end: u32,
}
