//! Ranks that join after others have left.

use std::time::Instant;

use typed_nccl::{Error, Sum};

use super::common::{SOON, build, device, seats, watched};

#[test]
fn a_peer_that_gave_up_before_we_came_is_lost() {
    watched(|| {
        let [a, b] = seats();
        assert!(matches!(build(b, 10).connect(), Err(Error::Timeout(_))));
        let error = build(a, 20_000).connect().map(drop).expect_err("nobody is there");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
    });
}

#[test]
fn a_peer_that_aborted_while_it_was_initializing_is_lost() {
    watched(|| {
        let [a, b] = seats();
        drop(build(b, 20_000).start().expect("start").abort());
        let error = build(a, 20_000).connect().and_then(|comm| {
            let mut x = comm.device().zeros::<f32>(4)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            x.to_vec().map(drop)
        });
        let error = error.expect_err("nobody is there");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
    });
}

#[test]
fn a_rank_that_joins_after_the_end_is_poisoned() {
    watched(|| {
        let [a, b] = seats();
        let soon = || Instant::now() + SOON;
        let a = a.start(device(0)).expect("start");
        let b = b.start(device(1)).expect("start");
        drop(a.ready().wait_until(soon()).expect("ready").abort());
        let Ok(comm) = b.ready().wait_until(soon()) else { return };
        let mut x = comm.device().zeros::<f32>(1).expect("memory");
        let told = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec().map(drop));
        told.expect_err("the peer is gone");
        comm.health().expect_err("over");
    });
}

#[test]
fn a_failed_initialization_is_told_to_each_rank_however_often_one_asks() {
    watched(|| {
        let [a, b] = seats();
        let soon = || Instant::now() + SOON;
        // Two ranks on one device.
        let a = a.start(device(3)).expect("start");
        let b = b.start(device(3)).expect("start");
        let first = a.try_ready(soon()).map(drop).expect_err("one device");
        assert!(matches!(first.error, Error::InitFailed(_)), "{}", first.error);
        let again = first.value.try_ready(soon()).map(drop).expect_err("one device");
        assert!(matches!(again.error, Error::InitFailed(_)), "{}", again.error);
        let other = b.try_ready(soon()).map(drop).expect_err("one device");
        assert!(matches!(other.error, Error::InitFailed(_)), "{}", other.error);
    });
}
