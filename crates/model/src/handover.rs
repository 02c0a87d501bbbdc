use burn::tensor::Tensor;

/// What a stage hands to the next one beside an activation, where both run in one graph: the vectors of tokens. Then the
/// activation is the tokens, and a recurrent layer needs no vector for each time step.
#[derive(Debug, Default)]
pub struct Handover {
    is_followed: bool,
    vectors: Option<Tensor<2>>,
}

impl Handover {
    /// Sets whether the stage that runs next is followed by one that takes its output in the same graph and pass.
    pub fn set_followed(&mut self, is_followed: bool) {
        self.is_followed = is_followed;
    }

    /// Hands vectors to the stage that follows. `false` if none does: it would not know them.
    pub(crate) fn give(&mut self, vectors: impl FnOnce() -> Tensor<2>) -> bool {
        self.vectors = self.is_followed.then(vectors);
        self.is_followed
    }

    /// The vectors that the stage before handed on, of the tokens that are the input of this one.
    pub(crate) fn take(&mut self) -> Option<Tensor<2>> {
        self.vectors.take()
    }
}
