//! What happens to the other ranks when one fails.

/// What happens to the other ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    /// They end too.
    End,
    /// They continue without it.
    GoOn,
}
