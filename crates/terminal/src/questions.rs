//! Questions on a terminal.

use std::io::{self, BufRead, IsTerminal};

use crate::stream;

/// Asks on a terminal, and takes the defaults elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Questions {
    asks: bool,
}

impl Questions {
    /// Asks if `may_ask` and if a person can read and answer.
    pub fn new(may_ask: bool) -> Self {
        Self { asks: may_ask && stream::is_terminal() && io::stdin().is_terminal() }
    }

    /// The answer to a question; an empty one stands for `default`.
    ///
    /// # Errors
    /// Stdin cannot be read.
    pub fn ask(self, question: &str, default: &str) -> io::Result<String> {
        if !self.asks {
            return Ok(default.to_owned());
        }
        stream::ask(&format!("{question} [{default}]: "));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(match answer.trim() {
            "" => default.to_owned(),
            answer => answer.to_owned(),
        })
    }
}
