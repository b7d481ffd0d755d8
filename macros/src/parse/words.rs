//! The words that begin statements.

use typed_nccl_plan::ir::CollectiveName;

/// Declarations.
pub(crate) const DECLARATIONS: [&str; 11] = [
    "in", "out", "inout", "local", "stream", "signal", "comm", "const", "let", "covers", "computes",
];

/// Actions.
pub(crate) const STATEMENTS: [&str; 11] =
    ["send", "recv", "put", "wait", "run", "group", "sequence", "on", "for", "if", "here"];

pub(crate) const COLLECTIVES: [&str; CollectiveName::ALL.len()] = {
    let mut names = [""; CollectiveName::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = CollectiveName::ALL[at].name();
        at += 1;
    }
    names
};

/// Words of other languages, and what is ours for them.
const FOREIGN: [(&str, &str); 11] = [
    ("receive", "recv"),
    ("buf", "in`, `out`, `inout` or `local"),
    ("buffer", "in`, `out`, `inout` or `local"),
    ("window", "inout window"),
    ("input", "in"),
    ("output", "out"),
    ("communicator", "comm"),
    ("while", "for"),
    ("bcast", "broadcast"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
];

/// All words that begin statements.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    DECLARATIONS.into_iter().chain(STATEMENTS).chain(COLLECTIVES)
}

/// The word that was probably meant.
pub(crate) fn meant(word: &str) -> Option<&'static str> {
    let foreign = FOREIGN.iter().find(|(foreign, _)| *foreign == word);
    foreign.map(|(_, ours)| *ours).or_else(|| crate::nearest::nearest(word, all()))
}
