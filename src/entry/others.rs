//! What becomes of the other ranks when one fails.

/// What becomes of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    /// They end too.
    End,
    /// They know how to go on without it.
    GoOn,
}
