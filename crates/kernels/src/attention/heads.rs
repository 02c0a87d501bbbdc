/// The heads of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads of queries, H.
    pub queries: usize,
    /// Heads of keys and of values, G, which divides H.
    pub keys: usize,
    /// Features of a head, D; even where positions are rotary.
    pub size: usize,
}

impl Heads {
    /// Features of the queries, and of the output.
    pub fn of_queries(self) -> usize {
        self.queries * self.size
    }

    /// Features of the keys, and of the values.
    pub fn of_keys(self) -> usize {
        self.keys * self.size
    }

    /// Features of queries, keys and values side by side: (H + 2G)·D.
    pub fn width(self) -> usize {
        self.of_queries() + 2 * self.of_keys()
    }

    /// Heads of queries that share a head of keys.
    pub(super) fn group(self) -> usize {
        self.queries / self.keys.max(1)
    }

    /// The factor of the products of queries and keys: 1/√D.
    pub(super) fn scale(self) -> f32 {
        1.0 / (self.size as f32).sqrt()
    }
}
