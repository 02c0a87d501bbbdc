//! `oomph tokenizer`: learns byte-pair encoding from a text.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Args;
use oomph_core::Bytes;
use oomph_data::tokens::train_tokenizer;
use serde::Serialize;

use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::{decimal, grouped},
    output::{self, OverwriteArguments},
    table::pairs,
};

#[derive(Args, Debug)]
#[command(after_help = "\
The tokenizer is byte-level byte-pair encoding in GPT-2's layout: Hugging Face's `tokenizers` reads the
file too. Every text has tokens, since each byte is one. The same text gives the same file.

Examples:
  oomph tokenizer book.txt --vocabulary 4096
  oomph tokenizer corpus/ --vocabulary 32000 --out corpus.json
  oomph train gpt-bpe --set data.path=book.txt --set data.tokenizer=tokenizer.json")]
pub(crate) struct TokenizerArguments {
    /// A text in UTF-8, plain or as `.gz`, a `.jsonl` or `.parquet` file, or a folder with such files
    #[arg(value_name = "TEXT")]
    text: PathBuf,
    /// Number of tokens: the 256 bytes, what pairs are joined to, and `<|endoftext|>`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(257..=16_777_216))]
    vocabulary: u32,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "tokenizer.json", short_alias = 'o')]
    out: PathBuf,
    /// The key of the text in each line of a `.jsonl` file, or the column of a `.parquet` file
    #[arg(long, value_name = "KEY", default_value = "text")]
    text_key: String,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Print one JSON line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &TokenizerArguments) -> Result<Exit, CliError> {
    arguments.overwrite.check([&arguments.out])?;
    let wanted = arguments.vocabulary as usize;
    // The file is one that the user names, so no limit guards against it.
    let limit = Bytes::new(u64::MAX);
    let trained = train_tokenizer(&arguments.text, &arguments.text_key, limit, wanted)?;
    let tokenizer = &trained.tokenizer;
    if tokenizer.size() < wanted {
        let [found, wanted] = [tokenizer.size(), wanted].map(grouped);
        Notices::default().warning(format!(
            "the vocabulary has {found} tokens instead of {wanted}: no other pair occurs twice in the text"
        ));
    }
    output::write_file(&arguments.out, arguments.overwrite.existing(), |out| {
        serde_json::to_writer(&mut *out, tokenizer).map_err(io::Error::from)?;
        out.write_all(b"\n")
    })?;
    let written = Written {
        path: &arguments.out,
        vocabulary: tokenizer.size(),
        text_bytes: trained.bytes,
        text_tokens: trained.tokens,
        bytes_per_token: trained.bytes as f64 / trained.tokens.max(1) as f64,
        sha256: tokenizer.hex_digest(),
    };
    output::show(arguments.json, &written, || written.report())
}

/// The tokenizer as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Written<'a> {
    path: &'a Path,
    vocabulary: usize,
    text_bytes: u64,
    text_tokens: u64,
    bytes_per_token: f64,
    /// Of tokens and merges, as messages about other tokenizers have it.
    sha256: String,
}

impl Written<'_> {
    fn report(&self) -> String {
        pairs([
            ("written", Some(self.path.display().to_string())),
            ("vocabulary", Some(format!("{} tokens", grouped(self.vocabulary)))),
            ("text", Some(format!("{} bytes", grouped(self.text_bytes as usize)))),
            ("its tokens", Some(grouped(self.text_tokens as usize))),
            ("bytes a token", Some(decimal(self.bytes_per_token))),
        ])
    }
}
