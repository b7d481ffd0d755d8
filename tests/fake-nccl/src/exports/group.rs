//! Groups: their depth is counted per thread.

use nccl_sys::{Function, ncclResult_t, ncclSimInfo_t};

use crate::export::exports;
use crate::moves;
use crate::state::{Refusal, State};

/// Ends a group; returns whether it is the outermost one.
fn end(state: &mut State) -> Result<bool, Refusal> {
    let groups = &mut state.thread().groups;
    *groups = groups.checked_sub(1).ok_or_else(|| Refusal::usage("there is no group to end"))?;
    let is_outermost = *groups == 0;
    if is_outermost {
        state.thread().captures.clear();
    }
    Ok(is_outermost)
}

/// The time of each call in a simulated group, in microseconds.
const EACH: f32 = 12.5;

/// The number of calls that the thread has made since its group began. If no data moves they are in
/// the log, with this one last.
fn since_start(state: &mut State) -> usize {
    let this = state.thread().number;
    let calls = state.log.iter().rev().filter(|call| call.thread == this).skip(1);
    calls.take_while(|call| call.function != Function::ncclGroupStart).count()
}

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
        // An inner group's estimate is not filled in.
        if !end(state)? {
            return Ok(());
        }
        let calls = moves::drop_group() + since_start(state);
        if simInfo.is_null() {
            return Ok(());
        }
        let estimatedTime = EACH * f32::from(u16::try_from(calls).unwrap_or(u16::MAX));
        simInfo.fill(&ncclSimInfo_t { estimatedTime, ..ncclSimInfo_t::new() })
    };
}
