//! The handles that the double hands out, and its answers when they are used.

use std::ffi::c_int;
use std::ptr;
use std::sync::Mutex;
use std::thread;

use fake_nccl::Live;
use nccl_sys::*;

use crate::common::*;

#[track_caller]
fn seat(api: &Api, comm: ncclComm_t) -> (c_int, c_int, c_int) {
    let (mut rank, mut count, mut device) = (-1, -1, -1);
    assert_eq!(call!(api, ncclCommUserRank(comm, &mut rank)), OK);
    assert_eq!(call!(api, ncclCommCount(comm, &mut count)), OK);
    assert_eq!(call!(api, ncclCommCuDevice(comm, &mut device)), OK);
    (rank, count, device)
}

#[test]
fn communicators_know_their_seats() {
    let (fake, api) = double("seats");
    fake.set_device(3);
    let comm = join(api, 1, 4);
    assert_eq!(seat(api, comm), (1, 4, 3));
    let config = ptr::null_mut();

    let mut all = [NCCL_COMM_NULL; 2];
    assert_eq!(call!(api, ncclCommInitAll(all.as_mut_ptr(), 2, [6, 5].as_ptr())), OK);
    assert_eq!(all.map(|comm| seat(api, comm)), [(0, 2, 6), (1, 2, 5)]);
    assert_eq!(call!(api, ncclCommInitAll(all.as_mut_ptr(), 2, ptr::null())), OK);
    assert_eq!(all.map(|comm| seat(api, comm)), [(0, 2, 0), (1, 2, 1)]);

    let mut child = NCCL_COMM_NULL;
    assert_eq!(call!(api, ncclCommSplit(comm, 7, 0, &mut child, config)), OK);
    assert_eq!(seat(api, child), (1, 4, 3));
    fake.next_split(0, 2);
    assert_eq!(call!(api, ncclCommSplit(comm, 7, 0, &mut child, config)), OK);
    assert_eq!(seat(api, child), (0, 2, 3));
    let none = NCCL_SPLIT_NOCOLOR;
    assert_eq!(call!(api, ncclCommSplit(comm, none, 0, &mut child, config)), OK);
    assert!(child.is_null());

    let mut gone = [3, 0];
    let shrunk = call!(api, ncclCommShrink(comm, gone.as_mut_ptr(), 2, &mut child, config, 0));
    assert_eq!(shrunk, OK);
    assert_eq!(seat(api, child), (0, 2, 3));

    let mut id = ncclUniqueId::zeroed();
    assert_eq!(call!(api, ncclCommGetUniqueId(comm, &mut id)), OK);
    assert_eq!(call!(api, ncclCommGrow(comm, 6, &id, -1, &mut child, config)), OK);
    assert_eq!(seat(api, child), (1, 6, 3));
    assert_eq!(call!(api, ncclCommGrow(NCCL_COMM_NULL, 6, &id, 5, &mut child, config)), OK);
    assert_eq!(seat(api, child), (5, 6, 3));
    assert_eq!(fake.misuse(), [""; 0]);
}

#[test]
fn one_that_does_not_block_is_waited_for() {
    let (fake, api) = double("progress");
    let mut config = ncclConfig_t::new();
    config.blocking = 0;
    let (mut id, mut comm) = (ncclUniqueId::zeroed(), NCCL_COMM_NULL);
    assert_eq!(call!(api, ncclGetUniqueId(&mut id)), OK);
    let going = ncclResult_t::ncclInProgress;
    assert_eq!(call!(api, ncclCommInitRankConfig(&mut comm, 1, id, 0, &mut config)), going);
    let settle = || {
        let mut state = going;
        while state == going {
            assert_eq!(call!(api, ncclCommGetAsyncError(comm, &mut state)), OK);
        }
        assert_eq!(state, OK);
    };
    let mut x = [1_f32];
    let mut reduce = || {
        let at = x.as_mut_ptr().cast();
        let (float, sum) = (ncclDataType_t::ncclFloat32, ncclRedOp_t::ncclSum);
        call!(api, ncclAllReduce(at, at, 1, float, sum, comm, ptr::null_mut()))
    };
    assert_ne!(reduce(), OK, "it is in progress");
    assert_eq!(fake.misuse().len(), 1);
    settle();
    assert_eq!(seat(api, comm), (0, 1, 0));
    assert_eq!(reduce(), going);
    settle();
    assert_eq!(call!(api, ncclGroupStart()), OK);
    assert_eq!((reduce(), reduce()), (OK, OK));
    assert_eq!(call!(api, ncclGroupEnd()), going);
    settle();
    assert_eq!(call!(api, ncclCommDestroy(comm)), OK);
    assert_eq!(fake.misuse().len(), 1);
}

#[test]
fn one_that_does_not_block_is_polled_by_one_thread_at_once() {
    let (fake, api) = double("polled");
    let mut config = ncclConfig_t::new();
    for (blocking, misused) in [(1, 0), (0, 1)] {
        config.blocking = blocking;
        let (mut id, mut comm) = (ncclUniqueId::zeroed(), NCCL_COMM_NULL);
        assert_eq!(call!(api, ncclGetUniqueId(&mut id)), OK);
        let joined = call!(api, ncclCommInitRankConfig(&mut comm, 1, id, 0, &mut config));
        assert_eq!(joined == OK, blocking == 1);
        fake.set_stuck(Function::ncclCommGetAsyncError, true);
        let comm = comm.expose_provenance();
        let poll = || {
            let (comm, mut state) = (ptr::with_exposed_provenance_mut(comm), OK);
            call!(api, ncclCommGetAsyncError(comm, &mut state))
        };
        thread::scope(|scope| {
            let polls = [scope.spawn(poll), scope.spawn(poll)];
            while fake.misuse().len() < misused {
                thread::yield_now();
            }
            fake.set_stuck(Function::ncclCommGetAsyncError, false);
            assert_eq!(polls.map(|poll| poll.join().expect("no panic")), [OK, OK]);
        });
        assert_eq!(poll(), OK);
        assert_eq!(fake.misuse().len(), misused);
    }
}

#[test]
fn a_seat_is_taken_once() {
    let (_fake, api) = double("taken");
    let mut comm = NCCL_COMM_NULL;
    let id = ncclUniqueId::from_bytes([1; 128]);
    assert_eq!(call!(api, ncclCommInitRank(&mut comm, 2, id, 0)), OK);
    assert_eq!(call!(api, ncclCommInitRank(&mut comm, 2, id, 0)), IU);
    assert_eq!(call!(api, ncclCommInitRank(&mut comm, 2, id, 1)), OK);
    assert_eq!(call!(api, ncclCommInitRank(&mut comm, 2, id, 2)), IA);
    assert_eq!(call!(api, ncclCommInitRank(ptr::null_mut(), 2, id, 1)), IA);
}

#[test]
fn ranks_give_the_same_ids_in_the_same_order() {
    let (_, api) = double("ids");
    let ids: Vec<_> = (0..4)
        .map(|_| {
            let mut id = ncclUniqueId::zeroed();
            assert_eq!(call!(api, ncclGetUniqueId(&mut id)), OK);
            id
        })
        .collect();
    let mut comm = ptr::null_mut();
    let mut join = |rank, size, ids: &[ncclUniqueId]| {
        let (mut ids, mut config) = (ids.to_vec(), ncclConfig_t::new());
        let count = ids.len() as c_int;
        call!(
            api,
            ncclCommInitRankScalable(&mut comm, size, rank, count, ids.as_mut_ptr(), &mut config)
        )
    };
    assert_eq!((join(0, 3, &[]), join(0, 3, &ids)), (IA, IA));
    assert_eq!(join(0, 3, &[ids[0], ids[0]]), IU);
    assert_eq!(join(0, 3, &ids[..2]), OK);
    assert_eq!((join(1, 3, &[ids[1], ids[0]]), join(1, 3, &ids[..1])), (IU, IU));
    assert_eq!((join(1, 3, &ids[1..3]), join(1, 2, &ids[..2])), (IU, IU));
    assert_eq!((join(1, 3, &ids[..2]), join(1, 3, &ids[..2]), join(2, 3, &ids[..2])), (OK, IU, OK));
    assert_eq!(join(0, 1, &ids[3..]), OK);
}

#[test]
fn what_is_freed_is_not_used() {
    let (fake, api) = double("freed");
    let (comm, other) = (join(api, 0, 1), join(api, 0, 1));
    assert!(comm != other);
    let send = |comm| call!(api, ncclSend(FROM, 1, F32, 0, comm, STREAM));
    assert_eq!(send(comm), OK);
    assert_eq!(call!(api, ncclCommFinalize(comm)), OK);
    assert_eq!(send(comm), IU);
    assert_eq!(call!(api, ncclCommDestroy(comm)), OK);
    assert_eq!(call!(api, ncclCommAbort(other)), OK);
    assert_eq!(fake.live(), Live::default());

    fake.clear();
    let foreign = ptr::without_provenance_mut(0xbad);
    assert_eq!([comm, other, foreign, NCCL_COMM_NULL].map(send), [IA; 4]);
    assert_eq!(call!(api, ncclCommDestroy(comm)), IA);
    assert_eq!(fake.misuse()[2], "ncclSend: 0xbad is no communicator of this library");
    assert_eq!(fake.misuse().len(), 5);
    // Ending a null communicator succeeds in NCCL.
    assert_eq!(call!(api, ncclCommDestroy(NCCL_COMM_NULL)), OK);
}

#[test]
fn a_handle_is_of_one_copy() {
    let (first, second) = (double("one_copy"), double("another_copy"));
    let (mine, other) = (join(first.1, 0, 1), join(second.1, 0, 1));
    assert!(mine != other);
    let count = |api: &Api, comm| call!(api, ncclCommCount(comm, &mut 0));
    assert_eq!([count(first.1, mine), count(first.1, other)], [OK, IA]);
    assert_eq!([count(second.1, mine), count(second.1, other)], [IA, OK]);
    assert_eq!((first.0.misuse().len(), second.0.misuse().len()), (1, 1));
}

#[test]
fn suspended_and_revoked() {
    let (_fake, api) = double("suspended");
    let comm = join(api, 0, 1);
    let send = || call!(api, ncclSend(FROM, 1, F32, 0, comm, STREAM));
    assert_eq!(call!(api, ncclCommSuspend(comm, NCCL_SUSPEND_MEM)), OK);
    assert_eq!(send(), IU);
    assert_eq!(call!(api, ncclCommResume(comm)), OK);
    assert_eq!(call!(api, ncclCommResume(comm)), IU);
    assert_eq!(send(), OK);
    assert_eq!(call!(api, ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT)), OK);
    assert_eq!(send(), IU);
    let (mut child, config) = (NCCL_COMM_NULL, ptr::null_mut());
    assert_eq!(call!(api, ncclCommSplit(comm, 0, 0, &mut child, config)), OK);
}

#[test]
fn memory_is_the_hosts() {
    let (fake, api) = double("memory");
    let mut memory = ptr::null_mut();
    assert_eq!(call!(api, ncclMemAlloc(&mut memory, 5000)), OK);
    assert!(!memory.is_null() && memory.addr().is_multiple_of(4096));
    // SAFETY: there are 5000 bytes, which only this test uses.
    unsafe { ptr::write_bytes(memory.cast::<u8>(), 1, 5000) };
    assert_eq!(fake.live().allocations, 1);
    assert_eq!(call!(api, ncclMemFree(memory)), OK);
    assert_eq!(call!(api, ncclMemFree(memory)), IA);
    assert_eq!(call!(api, ncclMemFree(ptr::null_mut())), OK);
    assert_eq!(call!(api, ncclMemAlloc(&mut memory, usize::MAX)), IA);
    assert_eq!(fake.live().allocations, 0);
}

#[test]
fn windows_and_registrations_are_a_communicators() {
    let (fake, api) = double("windows");
    let (comm, other) = (join(api, 0, 2), join(api, 1, 2));
    let (mut window, mut handle): (ncclWindow_t, _) = (ptr::null_mut(), ptr::null_mut());
    let flags = NCCL_WIN_COLL_SYMMETRIC;
    let askew = ptr::without_provenance_mut(0x2008);
    assert_eq!(call!(api, ncclCommWindowRegister(comm, askew, 64, &mut window, flags)), IA);
    assert_eq!(call!(api, ncclCommWindowRegister(comm, TO, 64, &mut window, flags)), OK);
    assert_eq!(call!(api, ncclCommRegister(comm, TO, 64, &mut handle)), OK);
    assert!(!window.is_null() && !handle.is_null());

    let put = |offset, comm| {
        let (peer, count) = (0, 1);
        call!(api, ncclPutSignal(FROM, count, F32, peer, window, offset, 0, 0, 0, comm, STREAM))
    };
    assert_eq!([put(60, comm), put(65, comm), put(0, other)], [OK, IA, IA]);
    let mut address = ptr::null_mut();
    assert_eq!(call!(api, ncclWinGetUserPtr(comm, window, &mut address)), OK);
    assert_eq!(address.addr(), 0x2000);
    assert_eq!(call!(api, ncclGetPeerDevicePointer(window, 8, 0, &mut address)), OK);
    assert_eq!(address.addr(), 0x2008);
    assert_eq!(call!(api, ncclGetPeerDevicePointer(window, 8, 1, &mut address)), OK);
    assert!(address.is_null());

    assert_eq!(call!(api, ncclCommWindowDeregister(other, window)), IA);
    assert_eq!(call!(api, ncclCommDeregister(other, handle)), IA);
    assert_eq!((fake.live().windows, fake.live().registrations), (1, 1));
    assert_eq!(call!(api, ncclCommWindowDeregister(comm, window)), OK);
    assert_eq!(call!(api, ncclCommWindowDeregister(comm, window)), IA);
    assert_eq!(call!(api, ncclCommDeregister(comm, handle)), OK);
    assert_eq!((fake.live().windows, fake.live().registrations), (0, 0));
}

#[test]
fn operators_are_a_communicators() {
    let (fake, api) = double("operators");
    let (comm, other) = (join(api, 0, 1), join(api, 0, 1));
    let (mut op, mut scalar) = (SUM, 2.0_f32);
    let scalar = (&raw mut scalar).cast();
    let immediate = ncclScalarResidence_t::ncclScalarHostImmediate;
    assert_eq!(call!(api, ncclRedOpCreatePreMulSum(&mut op, scalar, F32, immediate, comm)), OK);
    assert!(op >= ncclRedOp_t::ncclNumOps);
    assert_eq!(fake.log()[4].bytes("*scalar"), 2.0_f32.to_ne_bytes());
    let reduce = |kind, comm| call!(api, ncclAllReduce(FROM, TO, 1, kind, op, comm, STREAM));
    let f64 = ncclDataType_t::ncclFloat64;
    assert_eq!([reduce(F32, comm), reduce(f64, comm), reduce(F32, other)], [OK, IA, IA]);
    assert_eq!(call!(api, ncclRedOpDestroy(op, other)), IA);
    assert_eq!(call!(api, ncclRedOpDestroy(op, comm)), OK);
    assert_eq!(reduce(F32, comm), IA);
}

#[test]
fn what_can_be_had_is_the_tests_to_say() {
    let (fake, api) = double("said");
    let comm = join(api, 0, 1);
    let has_rma = || {
        let mut properties = ncclCommProperties_t::new();
        assert_eq!(call!(api, ncclCommQueryProperties(comm, &mut properties)), OK);
        properties.hostRmaSupport
    };
    assert!(!has_rma());
    fake.set_rma(true);
    assert!(has_rma());

    fake.set_windows(false);
    let mut window = ptr::without_provenance_mut(1);
    assert_eq!(call!(api, ncclCommWindowRegister(comm, TO, 64, &mut window, 0)), OK);
    assert!(window.is_null());
    assert_eq!((fake.live().windows, fake.misuse().len()), (0, 0));
}

#[test]
fn a_test_is_told_before_each_call() {
    static BEGUN: Mutex<Vec<Function>> = Mutex::new(Vec::new());
    let (fake, api) = double("before");
    fake.before(|function| BEGUN.lock().expect("no panic").push(function));
    join(api, 0, 1);
    assert_eq!(*BEGUN.lock().expect("no panic"), fake.called());
    assert_eq!(fake.called().len(), 2);
}
