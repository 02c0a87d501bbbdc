//! What the commands of oomph have in common.
//!
//! - [`error`]: the errors of all commands, with their hints and exit codes ([`exit`]). [`failure`] prints them, [`bug`] makes
//!   errors of panics, and `refusal` explains memory that the system refuses.
//! - [`output`]: results on stdout and in files that the user named.
//! - [`probe`]: a training in a child process of the same program, which measures it.
//! - [`signals`]: what Ctrl-C and the signals of other programs do.
//! - [`card`], [`ranks`], [`verdict`]: the card of this process, the processes of a launcher, and whether a training fits.
//!
//! ```
//! use oomph_command::{error::CliError, exit::Exit};
//!
//! let error = CliError::NothingToPredict { takes_text: false };
//! assert_eq!((error.exit(), error.hint().as_deref()), (Exit::Failure, Some("name image files, or folders of them")));
//! ```
//!
//! It has no commands and reads no command line.

pub mod bug;
pub mod card;
/// The errors of all commands.
pub mod error;
/// Exit codes.
pub mod exit;
pub mod failure;
pub mod output;
pub mod probe;
pub mod ranks;
// Rust ends a process on Windows without the signal that this answers.
#[cfg(unix)]
pub mod refusal;
pub mod signals;
/// Whether a training fits.
pub mod verdict;

use oomph_terminal::{echo, notices, stream};
