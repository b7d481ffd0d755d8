//! Calls that poll a non-blocking communicator: `ncclCommGetAsyncError` itself, and a revocation.
//!
//! A poll that finds a call complete joins the thread that made it and frees it. NCCL takes no
//! lock, so a second poll at the same time may use what the first has freed.

use nccl_sys::Function;

use crate::state::State;

/// A call that polls and has not returned.
pub(crate) struct Poll(Function, usize);

impl Poll {
    /// A call begins. If it polls a non-blocking communicator, it is misuse while another poll of
    /// that communicator is under way.
    pub(crate) fn begin(function: Function, comm: Option<usize>) -> Option<Self> {
        let comm = comm.filter(|_| polls(function))?;
        let mut state = State::lock();
        state.communicators.get(&comm).filter(|found| !found.blocks)?;
        let under_way = state.polls.entry(comm).or_default();
        under_way.push(function);
        if let [other, .., _] = under_way[..] {
            let words = format!("{function}: {comm:#x} is polled at the same time, by {other}");
            state.misuse.push(words);
        }
        Some(Self(function, comm))
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        let mut state = State::lock();
        let Some(under_way) = state.polls.get_mut(&self.1) else { return };
        let own = under_way.iter().position(|function| *function == self.0);
        own.map(|own| under_way.remove(own));
    }
}

fn polls(function: Function) -> bool {
    matches!(function, Function::ncclCommGetAsyncError | Function::ncclCommRevoke)
}
