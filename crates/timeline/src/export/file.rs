use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Writes a file beside its final name first: under that it is whole or not there. The name beside is this process's
/// own.
///
/// # Errors
/// The file cannot be written, or `write` fails. The incomplete file is removed.
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.part", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let written = || {
        let mut file = BufWriter::new(File::create(&unfinished)?);
        write(&mut file)?;
        file.flush()?;
        fs::rename(&unfinished, path)
    };
    written().inspect_err(|_| {
        // Half a file is of no use; where it cannot be removed either, the first error is the one to tell.
        let _ = fs::remove_file(&unfinished);
    })
}
