//! Tokens of texts, by characters, words or byte-pair encoding, and files of encoded tokens.
//!
//! - [`Tokenizer`]: a text to tokens and back, as in a `tokenizer.json` of GPT-2's layout.
//! - [`Vocabulary`]: a listed vocabulary of characters or words.
//! - [`TextEncoding`]: one of both; [`Continuation`]: a text that grows by their tokens.
//! - [`Trainer`]: learns a tokenizer from a text.
//! - [`Detokenizer`]: tokens to text one by one, in whole characters.
//! - [`TokenFile`], [`TokenWriter`]: a text that was encoded once, on disk.
//! - [`cut`]: where a text may be cut without changing its tokens.
//!
//! ```
//! use oomph_tokens::Trainer;
//!
//! let mut trainer = Trainer::new();
//! trainer.add("to be, or not to be: that is the question");
//! let trained = trainer.train(260);
//! let tokenizer = trained.tokenizer;
//! let tokens = tokenizer.encode("to be, 또는 not");
//! assert_eq!(tokenizer.decode(&tokens), "to be, 또는 not");
//! assert_eq!(tokenizer.encode("to be").len(), 3);
//! ```
//!
//! The merges are those of Gage's and Sennrich's [byte-pair encoding](https://arxiv.org/abs/1508.07909) over the bytes of
//! UTF-8, as in [GPT-2](https://github.com/openai/gpt-2): every text has tokens, and its tokens are the text again.
//!
//! It knows no models and no settings, downloads nothing, and reads no other layouts than GPT-2's.

mod alphabet;
mod detokenizer;
mod encoding;
mod error;
mod layout;
mod pieces;
mod token_file;
mod tokenizer;
mod train;
mod vocabulary;

pub use detokenizer::Detokenizer;
pub use encoding::{Continuation, TextEncoding};
pub use error::{TokenFileError, TokenFileProblem, TokenizerError, TokenizerProblem, VocabularyProblem};
pub use pieces::cut;
pub use token_file::{TextDigests, TokenFile, TokenWriter};
pub use tokenizer::Tokenizer;
pub use train::{Trained, Trainer};
pub use vocabulary::{Level, Vocabulary};
