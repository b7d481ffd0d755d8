//! Groups: their depth is counted for each thread.

use nccl_sys::{ncclResult_t, ncclSimInfo_t};

use crate::export::exports;
use crate::moves;
use crate::state::{Answer, Refusal, State};

fn end(state: &mut State) -> Answer {
    let groups = &mut state.thread().groups;
    *groups = groups.checked_sub(1).ok_or_else(|| Refusal::usage("there is no group to end"))?;
    if *groups > 0 {
        return Ok(());
    }
    state.thread().captures.clear();
    moves::close_group(state)
}

exports! {
    answer fn ncclGroupStart() -> ncclResult_t = |state| {
        state.thread().groups += 1;
        Ok(())
    };

    answer fn ncclGroupEnd() -> ncclResult_t = |state| end(state);

    answer fn ncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) -> ncclResult_t = |state| {
        end(state)?;
        if simInfo.is_null() {
            return Ok(());
        }
        // Nothing moves, and takes no time.
        simInfo.fill(&ncclSimInfo_t { estimatedTime: 0.0, ..ncclSimInfo_t::new() })
    };
}
