/// What columns read of each 16 planes, at one distance from their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// The distance.
    pub by: usize,
    /// Which 32 inner indices of the rows these are.
    pub index: usize,
}
