//! Writes the page.

use std::fmt::Write as _;

use super::Name;
use super::table::{Rating, Row};

const HEAD: &str = "\
# Beside nccl4py

NVIDIA's own Python bindings are the longest list of what NCCL's host API offers. Here is every public name of
theirs with what there is of it in typed-nccl, the test that shows it, or the reason why there is none.

`cargo run -p xtask -- parity` fetches the wheel, reads the names from its sources, joins them with
`xtask/src/parity/table.txt`, and writes this page. It fails on a name without a row, on a row without a name, on
an item or a test that is not in the tree, and on a row whose tests do not name each of its items: in their own code,
or in that of a function of their file that they call.

* **yes**: the same can be done.
* **part**: some of it can; the note says what cannot.
* **no**: it cannot; the note says why.
* **none**: there is nothing to have; the note says why: reserved, an old name, Python's own, replaced by ownership.
";

pub(super) fn write(version: &str, rows: &[(&Name, &Row)]) -> String {
    let mut page = format!("{HEAD}\nCompared with nccl4py {version}.\n\n{}", counts(rows));
    let mut modules: Vec<&str> = rows.iter().map(|(name, _)| name.module.as_str()).collect();
    modules.dedup();
    for module in modules {
        let rows: Vec<_> = rows.iter().filter(|(name, _)| name.module == module).collect();
        let _ =
            writeln!(page, "\n## nccl.core{}{module}\n", if module.is_empty() { "" } else { "." });
        // One reason for all.
        if let [(_, first), ..] = rows[..]
            && rows.iter().all(|(_, row)| std::ptr::eq(*row, *first))
            && first.items.is_empty()
        {
            let names: Vec<_> = rows.iter().map(|(name, _)| format!("`{}`", name.name)).collect();
            let _ = writeln!(page, "{}: {}.\n\n{}", first.rating, first.note, names.join(", "));
            continue;
        }
        page.push_str(
            "| name | kind | | typed-nccl | shown by | note |\n|---|---|---|---|---|---|\n",
        );
        for (name, row) in rows {
            let list = |list: &[String]| {
                list.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
            };
            let (items, tests) = (list(&row.items), list(&row.tests));
            let Name { name, kind, .. } = name;
            let _ = writeln!(
                page,
                "| `{name}` | {kind} | {} | {items} | {tests} | {} |",
                row.rating, row.note
            );
        }
    }
    page
}

/// The number of names with each rating; kernels' names are counted separately.
pub(super) fn counts(rows: &[(&Name, &Row)]) -> String {
    let mut table =
        "| what | yes | part | no | none | all |\n|---|---|---|---|---|---|\n".to_owned();
    type Which = fn(&Name) -> bool;
    let whats: [(&str, Which); 3] = [
        ("names, members, fields", |name| !is_kernels(name) && name.kind != "param"),
        ("parameters", |name| !is_kernels(name) && name.kind == "param"),
        ("code of kernels (`nccl.core.device`)", is_kernels),
    ];
    for (what, which) in whats {
        let these: Vec<_> = rows.iter().filter(|(name, _)| which(name)).collect();
        let count = |rating| these.iter().filter(|(_, row)| row.rating == rating).count();
        let counts = Rating::ALL.map(|rating| count(rating).to_string()).join(" | ");
        let _ = writeln!(table, "| {what} | {counts} | {} |", these.len());
    }
    table
}

fn is_kernels(name: &Name) -> bool {
    name.module.starts_with("device")
}
