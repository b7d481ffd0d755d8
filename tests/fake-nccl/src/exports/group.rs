//! Groups: their depth is counted for each thread.

use nccl_sys::{ncclResult_t, ncclSimInfo_t};

use crate::export::exports;
use crate::moves;
use crate::state::{Refusal, State};

/// Ends a group; whether it is the outermost one.
fn end(state: &mut State) -> Result<bool, Refusal> {
    let groups = &mut state.thread().groups;
    *groups = groups.checked_sub(1).ok_or_else(|| Refusal::usage("there is no group to end"))?;
    let is_outermost = *groups == 0;
    if is_outermost {
        state.thread().captures.clear();
    }
    Ok(is_outermost)
}

/// What each call of a simulated group takes, in microseconds.
const EACH: f32 = 12.5;

exports! {
    answer fn ncclGroupStart() -> ncclResult_t = |state| {
        state.thread().groups += 1;
        Ok(())
    };

    answer fn ncclGroupEnd() -> ncclResult_t = |state| match end(state)? {
        true => moves::close_group(state),
        false => Ok(()),
    };

    answer fn ncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) -> ncclResult_t = |state| {
        // An inner group's is not filled in.
        if !end(state)? {
            return Ok(());
        }
        let calls = moves::drop_group();
        if simInfo.is_null() {
            return Ok(());
        }
        let estimatedTime = EACH * f32::from(u16::try_from(calls).unwrap_or(u16::MAX));
        simInfo.fill(&ncclSimInfo_t { estimatedTime, ..ncclSimInfo_t::new() })
    };
}
