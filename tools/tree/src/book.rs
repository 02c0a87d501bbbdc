//! The documentation as a book: the sources that mdBook renders, made from the pages as they stand.
//!
//! `docs/README.md` is the table of contents: its headings are the parts of the book, its links the chapters. The sources keep
//! the layout of the repository, so a link between two pages works in a clone and in the book.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use crate::Tree;

/// The page that lists all others.
const CONTENTS: &str = "docs/README.md";
/// The first page.
const COVER: &str = "README.md";
/// The last part, for pages that no table of the contents has.
const LAST_PART: &str = "The project";

/// A chapter: the path of its page from the root of the repository, and the page's heading.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Chapter {
    path: String,
    title: String,
}

/// The book: its parts in order, and the files that pages link to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    parts: Vec<(String, Vec<Chapter>)>,
    /// Files that are no pages, such as pictures and configs.
    files: BTreeSet<String>,
}

impl Book {
    /// The book of a tree: the pages of the contents, those that other pages link to, and the files that any of them links to.
    ///
    /// # Panics
    ///
    /// If a page cannot be read. The tidy tests check that links lead somewhere.
    pub fn of(tree: &Tree) -> Self {
        let mut book = Self::default();
        let mut last = Vec::new();
        for line in tree.text(CONTENTS).lines() {
            if let Some(part) = line.strip_prefix("## ") {
                book.parts.push((part.to_owned(), Vec::new()));
            }
            let is_row = line.starts_with('|');
            for path in links(line).filter_map(|link| resolve(CONTENTS, link)).filter(|path| is_page(path)) {
                match book.parts.last_mut().filter(|_| is_row) {
                    Some((_, chapters)) => chapters.push(Chapter::of(tree, path)),
                    None => last.push(Chapter::of(tree, path)),
                }
            }
        }
        book.parts.push((LAST_PART.to_owned(), last));
        book.add_linked(tree);
        book
    }

    /// Adds what pages link to, and what the pages link to that are added.
    fn add_linked(&mut self, tree: &Tree) {
        let mut waiting: Vec<_> = [COVER, CONTENTS].map(str::to_owned).into();
        waiting.extend(self.chapters().map(|chapter| chapter.path.clone()));
        let mut seen: BTreeSet<_> = waiting.iter().cloned().collect();
        while let Some(page) = waiting.pop() {
            let text = tree.text(&page);
            for path in text.lines().flat_map(links).filter_map(|link| resolve(&page, link)) {
                if !tree.root().join(&path).is_file() || !seen.insert(path.clone()) {
                    continue;
                }
                if is_page(&path) {
                    waiting.push(path.clone());
                    let last = self.parts.last_mut();
                    last.into_iter().for_each(|(_, chapters)| chapters.push(Chapter::of(tree, path.clone())));
                } else {
                    self.files.insert(path);
                }
            }
        }
    }

    fn chapters(&self) -> impl Iterator<Item = &Chapter> {
        self.parts.iter().flat_map(|(_, chapters)| chapters)
    }

    /// The table of contents, as mdBook reads it.
    pub fn summary(&self) -> String {
        let mut text =
            format!("# Summary\n\n[oomph]({})\n[Contents]({})\n", in_book(COVER), in_book(CONTENTS));
        for (part, chapters) in &self.parts {
            // A `String` takes all text.
            let _ = write!(text, "\n# {part}\n\n");
            for Chapter { path, title } in chapters {
                let _ = writeln!(text, "- [{title}]({})", in_book(path));
            }
        }
        text
    }

    /// Writes the sources into `folder`, whose earlier contents are removed.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn write(&self, tree: &Tree, folder: &Path) -> io::Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        let pages = self.chapters().map(|chapter| chapter.path.as_str()).chain([COVER, CONTENTS]);
        for path in pages.chain(self.files.iter().map(String::as_str)) {
            let to = folder.join(in_book(path));
            fs::create_dir_all(to.parent().unwrap_or(folder))?;
            if is_page(path) {
                fs::write(to, with_links_in_book(&tree.text(path)))?;
            } else {
                fs::copy(tree.root().join(path), to)?;
            }
        }
        fs::write(folder.join("SUMMARY.md"), self.summary())
    }
}

impl Chapter {
    fn of(tree: &Tree, path: String) -> Self {
        let text = tree.text(&path);
        let heading = text.lines().find_map(|line| line.strip_prefix("# "));
        Self { title: heading.unwrap_or(&path).to_owned(), path }
    }
}

/// A link of a rendered page that leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLink {
    /// The page, from the folder of the book.
    pub page: PathBuf,
    /// Its target, as it stands in the page.
    pub target: String,
}

/// Links in the HTML pages below `folder` to files or headings that are not there. Links into the web are not followed.
///
/// # Errors
///
/// If a page cannot be read.
pub fn broken_links(folder: &Path) -> io::Result<Vec<BrokenLink>> {
    let mut pages = Vec::new();
    html_files(folder, &mut pages)?;
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let targets = ["href=\"", "src=\""].into_iter().flat_map(|attribute| attributes(&text, attribute));
        for target in targets.filter(|target| !target.contains(':')) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let at = if file.is_empty() { page.clone() } else { page.parent().unwrap_or(folder).join(file) };
            let is_there = at.is_file()
                && (heading.is_empty() || fs::read_to_string(&at)?.contains(&format!("id=\"{heading}\"")));
            if !is_there {
                let page = page.strip_prefix(folder).unwrap_or(page).to_owned();
                broken.push(BrokenLink { page, target: target.to_owned() });
            }
        }
    }
    Ok(broken)
}

/// Pages of mdBook whose links are not those of a page: one repeats all others, one is shown below any path.
const NOT_READ: [&str; 2] = ["print.html", "404.html"];

/// The HTML files below a folder with pages of the book.
fn html_files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            html_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "html")
            && !NOT_READ.iter().any(|name| path.ends_with(name))
        {
            found.push(path);
        }
    }
    Ok(())
}

/// The values of an attribute in a page.
fn attributes<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

/// The targets of `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md")
}

/// The path of a file in the book: a server shows `index.html` for a folder, and mdBook makes it from `index.md`.
fn in_book(path: &str) -> String {
    path.strip_suffix("README.md").map_or_else(|| path.to_owned(), |folder| format!("{folder}index.md"))
}

/// The text of a page with links as the book has them.
fn with_links_in_book(text: &str) -> String {
    let mut parts = text.split("](");
    let mut page = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let (file, heading) = target.split_at(target.find('#').unwrap_or(target.len()));
        let target = if target.contains(':') { target.to_owned() } else { in_book(file) + heading };
        page += "](";
        page += &target;
        page += &part[part.len() - rest.len() - usize::from(part.contains(')'))..];
    }
    page
}

/// The path from the root of what a page links to; `None` for links within the page and into the web.
fn resolve(page: &str, link: &str) -> Option<String> {
    let file = link.split('#').next().filter(|file| !file.is_empty() && !file.contains(':'))?;
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("README.md", "# Cover\n[all](docs/README.md) ![p](docs/p.svg) [web](https://example.org)\n");
        write(
            "docs/README.md",
            "# All\n\n## Guides\n\n| [x](guides/a.md) | does |\n\nSee [more](../MORE.md#top).\n",
        );
        write("docs/guides/a.md", "# Page A\n[config](../../configs/c.toml), [b](../b.md), [here](#there)\n");
        write("docs/b.md", "# Page B\n[a](guides/a.md)\n");
        write("MORE.md", "# More\n");
        write("docs/p.svg", "<svg/>");
        write("configs/c.toml", "");
        let tree = Tree::new(folder.path());
        (folder, tree)
    }

    #[test]
    fn no_page_that_is_linked_is_missing() {
        let (_folder, tree) = tree();
        let expected = "# Summary\n\n[oomph](index.md)\n[Contents](docs/index.md)\n\n# Guides\n\n- [Page A](docs/guides/a.md)\n\n\
            # The project\n\n- [More](MORE.md)\n- [Page B](docs/b.md)\n";
        assert_eq!(Book::of(&tree).summary(), expected);
    }

    #[test]
    fn the_sources_have_the_layout_of_the_repository() {
        let (folder, tree) = tree();
        let to = folder.path().join("target/book");
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("old.md"), "").unwrap();
        Book::of(&tree).write(&tree, &to).unwrap();
        for path in [
            "index.md",
            "docs/index.md",
            "SUMMARY.md",
            "MORE.md",
            "docs/b.md",
            "docs/p.svg",
            "configs/c.toml",
        ] {
            assert!(to.join(path).is_file(), "{path}");
        }
        assert!(!to.join("old.md").exists());
    }

    #[test]
    fn links_to_folders_lead_to_their_first_page() {
        assert_eq!(
            with_links_in_book(
                "[a](../README.md#x) `](` [b](c.md), [d](https://example.org/README.md) (README.md)"
            ),
            "[a](../index.md#x) `](` [b](c.md), [d](https://example.org/README.md) (README.md)"
        );
        assert_eq!(with_links_in_book("no link"), "no link");
    }

    #[test]
    fn links_are_resolved_from_their_page() {
        assert_eq!(resolve("docs/a/b.md", "../c.md#d").as_deref(), Some("docs/c.md"));
        assert_eq!(resolve("README.md", "docs/a.md").as_deref(), Some("docs/a.md"));
        assert_eq!(resolve("docs/a.md", "#here"), None);
        assert_eq!(resolve("docs/a.md", "https://example.org/x.md"), None);
        assert_eq!(resolve("a.md", "../outside.md"), None);
    }

    #[test]
    fn links_to_nowhere_are_found_in_rendered_pages() {
        let folder = tempfile::tempdir().unwrap();
        let page = "<h2 id=\"here\"><a href=\"#here\"><a href=\"b.html#there\"><a href=\"b.html#gone\"><img src=\"gone.png\"><a href=\"https://example.org\">";
        fs::write(folder.path().join("a.html"), page).unwrap();
        fs::write(folder.path().join("b.html"), "<p id=\"there\">").unwrap();
        let broken: Vec<_> =
            broken_links(folder.path()).unwrap().into_iter().map(|link| link.target).collect();
        assert_eq!(broken, ["b.html#gone", "gone.png"]);
    }

    #[test]
    fn every_page_of_docs_is_in_the_book() {
        let tree = Tree::own();
        let summary = Book::of(&tree).summary();
        for (path, _) in tree.files("docs", ".md") {
            assert_eq!(summary.matches(&format!("({})", in_book(&path))).count(), 1, "{path}");
        }
    }
}
