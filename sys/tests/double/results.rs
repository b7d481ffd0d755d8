//! How calls end, and the words for it.

use nccl_sys::*;

use crate::common::*;

#[test]
fn unknown_codes_survive() {
    let (fake, api) = double("unknown");
    let comm = join(api, 0, 1);
    fake.clear();
    fake.fail(Function::ncclAllReduce, UNKNOWN);
    let reduce = || call!(api, ncclAllReduce(FROM, TO, 8, F32, SUM, comm, STREAM));
    assert_eq!(reduce(), UNKNOWN);
    assert_eq!(format!("{UNKNOWN:?}"), "ncclResult_t(77)");
    assert_eq!(reduce(), OK, "it was told once");
    assert_eq!(fake.log()[0].result, Some(UNKNOWN));
    assert_eq!(fake.misuse(), [""; 0], "what was asked for is no misuse");

    fake.set_async_error(comm, UNKNOWN);
    let mut state = OK;
    assert_eq!(call!(api, ncclCommGetAsyncError(comm, &mut state)), OK);
    assert_eq!(state, UNKNOWN);
    assert_eq!(text(call!(api, ncclGetErrorString(UNKNOWN))), "unknown result code");
}

#[test]
fn failures_come_in_the_order_in_which_they_were_asked_for() {
    let (fake, api) = double("failures");
    fake.fail(Function::ncclGroupStart, ncclResult_t::ncclSystemError);
    fake.fail(Function::ncclGroupStart, OK);
    fake.fail(Function::ncclGroupStart, IA);
    let start = || call!(api, ncclGroupStart());
    assert_eq!([start(), start(), start()], [ncclResult_t::ncclSystemError, OK, IA]);
    // One of the three opened a group.
    let end = || call!(api, ncclGroupEnd());
    assert_eq!([end(), end()], [OK, IU]);
}

#[test]
fn the_last_error_arrives() {
    let (fake, api) = double("last_error");
    let said = || text(call!(api, ncclGetLastError(NCCL_COMM_NULL)));
    assert_eq!(said(), "");
    fake.set_last_error("the cable is out: α");
    assert_eq!(said(), "the cable is out: α");
    assert_eq!(call!(api, ncclGroupEnd()), IU);
    assert_eq!(said(), "ncclGroupEnd: there is no group to end");
}

#[test]
fn results_have_words() {
    for loaded in ["2.27.7", "2.32.3"] {
        let (_fake, api) = release(loaded, &format!("words-{loaded}"));
        for (name, result, since) in ncclResult_t::VALUES {
            let said = text(call!(api, ncclGetErrorString(*result)));
            let known = *name != "ncclNumResults" && api.version().at_least(*since);
            assert_eq!(said != "unknown result code", known, "{name}: {said}");
        }
    }
}

/// What a non-blocking communicator does: the call is under way, and its state is asked for.
#[test]
fn in_progress_is_not_failed() {
    let (fake, api) = double("in_progress");
    let mut config = ncclConfig_t { blocking: 0, ..ncclConfig_t::new() };
    let mut comm = NCCL_COMM_NULL;
    let id = ncclUniqueId::from_bytes([1; 128]);
    let made = call!(api, ncclCommInitRankConfig(&mut comm, 1, id, 0, &mut config));
    assert_eq!(made, BUSY);
    assert!(!comm.is_null());
    let state = || {
        let mut state = UNKNOWN;
        assert_eq!(call!(api, ncclCommGetAsyncError(comm, &mut state)), OK);
        state
    };
    assert_eq!(state(), BUSY);
    while state() == BUSY {}
    let told = [BUSY, OK, IU].map(|told| {
        fake.set_async_error(comm, told);
        state()
    });
    assert_eq!(told, [BUSY, OK, IU]);

    fake.fail(Function::ncclCommSplit, ncclResult_t::ncclRemoteError);
    let mut child = NCCL_COMM_NULL;
    let split = call!(api, ncclCommSplit(comm, 0, 0, &mut child, &mut config));
    assert_eq!(split, ncclResult_t::ncclRemoteError);
    assert!(child.is_null(), "what failed has done nothing");
    assert_eq!(fake.live().communicators, 1);
}
