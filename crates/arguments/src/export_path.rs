use std::{
    path::{Path, PathBuf, is_separator},
    str::FromStr,
};

/// What an export writes: a safetensors file, an ONNX file, or a folder for Hugging Face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportPath {
    path: PathBuf,
    /// Whether it ends in a separator.
    is_marked: bool,
}

/// Endings of other formats. A file of one format under the name of another is of no use to anybody.
const OTHER_FORMATS: [&str; 13] =
    ["bin", "ckpt", "gguf", "h5", "keras", "npy", "npz", "pb", "pickle", "pkl", "pt", "pth", "tflite"];

impl ExportPath {
    /// The path, without a separator at its end.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is an ONNX file.
    pub fn is_onnx(&self) -> bool {
        !self.is_folder() && ending(&self.path) == "onnx"
    }

    /// Whether it is a folder: one that exists, or a path that ends in a separator.
    pub fn is_folder(&self) -> bool {
        self.is_marked || self.path.is_dir()
    }
}

impl FromStr for ExportPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, is_marked) = (PathBuf::from(text), text.ends_with(is_separator));
        if !is_marked && OTHER_FORMATS.contains(&ending(&path).as_str()) && !path.is_dir() {
            let name = path.with_extension("safetensors");
            return Err(format!("oomph writes safetensors and ONNX; did you mean `{}`?", name.display()));
        }
        Ok(Self { path: path.components().collect(), is_marked })
    }
}

/// The ending of a file's name, in small letters.
fn ending(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_or_ends_in_a_separator() {
        let of = |text: &str| {
            let path: ExportPath = text.parse().unwrap();
            (path.path().to_owned(), path.is_onnx(), path.is_folder())
        };
        assert_eq!(of("a/w.safetensors"), ("a/w.safetensors".into(), false, false));
        assert_eq!(of("a.ONNX"), ("a.ONNX".into(), true, false));
        assert_eq!(of("a.onnx/"), ("a.onnx".into(), false, true));
        assert_eq!(of("/"), ("/".into(), false, true));
        assert!(of(env!("CARGO_MANIFEST_DIR")).2);
        let refused = "w.pth".parse::<ExportPath>().unwrap_err();
        assert_eq!(refused, "oomph writes safetensors and ONNX; did you mean `w.safetensors`?");
    }
}
