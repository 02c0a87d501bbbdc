use std::collections::VecDeque;

use oomph_core::Phase;

use crate::GraphEnds;

/// Which of the graphs in flight a backward ends.
#[derive(Debug, Default)]
pub(crate) struct GraphOrder {
    /// Which of them a backward ends.
    pub(crate) ends: GraphEnds,
    begun: u64,
    /// The numbers of the graphs in flight, the oldest first.
    open: VecDeque<u64>,
    /// Whether the last forward had a backward.
    is_backward_begun: bool,
    /// In a forward within backward, which computes a stage again.
    is_within_backward: bool,
}

impl GraphOrder {
    /// Enters `phase`, from the phase `before`.
    pub(crate) fn enter(&mut self, before: Phase, phase: Phase) {
        match (before, phase) {
            (Phase::Forward, Phase::Forward) | (Phase::Backward, Phase::Backward) => {}
            (Phase::Backward, Phase::Forward) => self.is_within_backward = true,
            (_, Phase::Backward) if self.is_within_backward => self.is_within_backward = false,
            (_, Phase::Backward) => self.end(),
            (_, Phase::Forward) => {
                (self.is_within_backward, self.is_backward_begun) = (false, false);
                self.begun += 1;
                self.open.push_back(self.begun);
            }
            _ => self.is_within_backward = false,
        }
    }

    fn end(&mut self) {
        match self.ends {
            GraphEnds::OldestFirst => drop(self.open.pop_front()),
            GraphEnds::LossFirst if !self.is_backward_begun => drop(self.open.pop_back()),
            GraphEnds::LossFirst | GraphEnds::Together => self.open.clear(),
        }
        self.is_backward_begun = true;
    }

    /// Whether the backward of a graph has not begun.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.open.contains(&number)
    }

    /// The number of the graph that forward builds.
    pub(crate) fn current(&self) -> u64 {
        if self.is_within_backward { 0 } else { self.begun }
    }
}

#[cfg(test)]
mod tests {
    use Phase::{Backward, Data, Forward, Step};

    use super::*;

    /// The open graphs after each phase.
    fn open(ends: GraphEnds, phases: &[Phase]) -> Vec<Vec<u64>> {
        let mut order = GraphOrder { ends, ..GraphOrder::default() };
        let mut before = Step;
        let enter = |phase: &Phase| {
            order.enter(std::mem::replace(&mut before, *phase), *phase);
            (1..=order.begun).filter(|number| order.is_open(*number)).collect()
        };
        phases.iter().map(enter).collect()
    }

    #[test]
    fn a_backward_ends_the_graphs_of_its_strategy() {
        let phases = [Forward, Data, Forward, Backward, Step, Backward];
        let after = |ends| open(ends, &phases).split_off(2);
        assert_eq!(after(GraphEnds::Together), [vec![1, 2], vec![], vec![], vec![]]);
        assert_eq!(after(GraphEnds::OldestFirst), [vec![1, 2], vec![2], vec![2], vec![]]);
        assert_eq!(after(GraphEnds::LossFirst), [vec![1, 2], vec![1], vec![1], vec![]]);
    }

    #[test]
    fn a_recomputed_forward_ends_no_graph() {
        let phases = [Forward, Data, Forward, Backward, Forward, Backward];
        assert_eq!(open(GraphEnds::OldestFirst, &phases)[3..], [[2], [2], [2]]);
    }
}
