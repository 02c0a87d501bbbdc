use crate::download::Remote;

/// Texts that `data.download` can fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownText {
    TinyShakespeare,
}

impl KnownText {
    /// The file to download.
    pub(super) fn file(self) -> Remote {
        match self {
            // The author's repository.
            Self::TinyShakespeare => Remote::new(
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                1_115_394,
                "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            ),
        }
    }
}
