//! The words that statements begin with.

/// What declares something.
pub(crate) const DECLARATIONS: [&str; 10] =
    ["in", "out", "inout", "local", "stream", "signal", "comm", "let", "covers", "computes"];

/// What does something.
pub(crate) const STATEMENTS: [&str; 10] =
    ["send", "recv", "put", "wait", "run", "group", "sequence", "on", "for", "if"];

pub(crate) const COLLECTIVES: [&str; 8] = [
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
];

/// How a collective is written.
pub(crate) fn example(collective: &str) -> &'static str {
    match collective {
        "all_reduce" => "all_reduce(x, sum)",
        "reduce" => "reduce(a -> b, sum, root = 0)",
        "reduce_scatter" => "reduce_scatter(a -> b, sum)",
        "broadcast" => "broadcast(x, root = 0)",
        "gather" => "gather(a -> b, root = 0)",
        "scatter" => "scatter(a -> b, root = 0)",
        "all_to_all" => "all_to_all(a -> b)",
        _ => "all_gather(a -> b)",
    }
}

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
