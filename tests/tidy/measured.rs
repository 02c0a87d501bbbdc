//! Measured tables and headline figures in the documents: as in the data of the tools.

use std::io;

use oomph_tree::tables::{Table, filled};

use crate::{Finding, report, tree};

/// The first line in which a page differs from its data, and messages about markers without data.
fn differences(path: &str, page: &str, table: impl Fn(&str) -> io::Result<Table>) -> Vec<Finding> {
    let finding = |line, says: String| Finding::new(path, line, says);
    match filled(page, table) {
        Ok(filled) if filled == page => Vec::new(),
        Ok(filled) => {
            let same = filled.lines().zip(page.lines()).take_while(|(new, old)| new == old).count();
            vec![finding(same + 1, "differs from docs/tables; run `cargo xtask docs`".into())]
        }
        Err(errors) => errors.into_iter().map(|(line, error)| finding(line, error)).collect(),
    }
}

#[test]
fn pages_show_what_was_measured() {
    let tree = tree::own();
    let pages = tree.files("", ".md").into_iter();
    let findings = pages.flat_map(|(path, page)| differences(&path, &page, |name| Table::read(&tree, name)));
    report("pages show what was measured", findings.collect());
}

#[test]
fn a_figure_that_differs_is_found() {
    let table = |_: &str| {
        let mut table = Table::new("command", &["column"]);
        table.figures.insert("p95".into(), "0.65 %".into());
        Ok(table)
    };
    let page = |figure: &str| format!("a\nerror <!-- figure:plan.p95 -->{figure}<!-- end -->\n");
    assert!(differences("x.md", &page("0.65 %"), table).is_empty());
    assert_eq!(differences("x.md", &page("0.64 %"), table)[0].line, 2);
    assert_eq!(differences("x.md", "<!-- figure:plan.p50 --><!-- end -->\n", table)[0].line, 1);
}
