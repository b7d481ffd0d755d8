//! Life and death: finish, abort, drop, lost peers, deadlines.

use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Error, Finalized, GinType, Host, Rank, Result,
    Seat, Sum, tag,
};

use crate::ranks::{self, spmd};

use crate::busy::busy;

tag!(Halo, Gradients);

/// Two ranks on two threads.
fn pair(first: impl FnOnce(Seat) + Send, second: impl FnOnce(Seat) + Send) {
    let ranks: [Box<dyn FnOnce(Seat) + Send>; 2] = [Box::new(first), Box::new(second)];
    on_threads(ranks);
}

fn on_threads<'a>(ranks: [Box<dyn FnOnce(Seat) + Send + 'a>; 2]) {
    std::thread::scope(|scope| {
        for (rank, seat) in ranks.into_iter().zip(Seat::local(2)) {
            scope.spawn(move || rank(seat));
        }
    });
}

fn connect(seat: Seat) -> Communicator<Host<AnyDevice>> {
    let device = Host::any(seat.rank().index() as u32).expect("a host device");
    seat.init(device).expect("init")
}

/// Likewise, and then with a deadline of `millis`.
fn impatient(seat: Seat, millis: u64) -> Communicator<Host<AnyDevice>> {
    let device = Host::any(seat.rank().index() as u32).expect("a host device");
    let config = CommConfig::builder().deadline(Duration::from_millis(millis)).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    ranks::connect(comm).expect("init")
}

/// A rank that is slow to see that all have come is ready, and its first call is told.
#[test]
fn a_rank_that_sees_late_that_all_have_come_is_told_at_its_first_call() {
    type Leaves = fn(Communicator<Host<AnyDevice>>);
    let ways: [(Leaves, &str); 2] = [
        (|comm| drop(comm.abort_because("enough")), "rank 0 left: it was aborted (at "),
        (drop, "rank 0 left: its communicator was dropped without `finish`"),
    ];
    for (leaves, why) in ways {
        let (seen, gone) = (Barrier::new(2), Barrier::new(2));
        pair(
            |seat| {
                seen.wait();
                leaves(connect(seat));
                gone.wait();
            },
            |seat| {
                let starting = seat.start(Host::any(1).expect("a host device")).expect("it starts");
                seen.wait();
                gone.wait();
                let comm = starting.ready().wait().expect("all ranks have come");
                let error = comm.barrier().expect_err("rank 0 has left");
                let Error::PeerFailed(failed) = &error else { panic!("{error}") };
                assert!(failed.lost.len() == 1 && failed.lost[0] == 0, "{error}");
                assert!(error.to_string().contains(why), "{error}");
            },
        );
    }
}

/// Likewise, if the others have revoked it: they all go on together.
#[test]
fn a_rank_that_sees_late_that_all_have_come_goes_on_after_a_revocation() {
    let (seen, gone) = (Barrier::new(2), Barrier::new(2));
    pair(
        |seat| {
            seen.wait();
            let mut comm = connect(seat);
            assert!(comm.abort_handle().revoke("a new epoch"));
            comm.barrier().expect_err("it is revoked");
            gone.wait();
            comm.recover().expect("both go on");
            assert_eq!(comm.size(), 2);
            comm.barrier().and_then(|()| comm.finish()).expect("both are well");
        },
        |seat| {
            let starting = seat.start(Host::any(1).expect("a host device")).expect("it starts");
            seen.wait();
            gone.wait();
            let mut comm = starting.ready().wait().expect("all ranks have come");
            let error = comm.barrier().expect_err("rank 0 has revoked it");
            assert!(matches!(error, Error::Revocation(_)), "{error}");
            comm.recover().expect("both go on");
            comm.barrier().and_then(|()| comm.finish()).expect("both are well");
        },
    );
}

#[test]
fn a_finished_communicator_says_so() -> Result<()> {
    let comm = connect(Seat::local(1).remove(0));
    let over: Communicator<_, Finalized> = comm.try_finish()?;
    assert_eq!((over.rank().index(), over.size()), (0, 1));
    assert!(format!("{over:?}").contains("Finalized"));
    Ok(())
}

/// A rank whose `try_finish` returned an error of its own has ended with the others, and may drop
/// the communicator.
#[test]
fn a_rank_that_tried_to_finish_may_drop() {
    for _ in 0..50 {
        pair(
            |seat| {
                let mut comm = connect(seat);
                drop(comm.window::<f32>(1).expect("signals come with a window"));
                comm.barrier().expect("rank 1 signals first");
                // Rank 1 waits by now, and looks again some time after all have come.
                std::thread::sleep(Duration::from_millis(5));
                let failed = comm.try_finish().map(drop).expect_err("nobody awaits the signal");
                assert!(matches!(failed.error, Error::Unawaited(_)), "{}", failed.error);
            },
            |seat| {
                let mut comm = connect(seat);
                drop(comm.window::<f32>(1).expect("signals come with a window"));
                comm.signal(0).expect("rank 0 is there");
                comm.barrier().expect("rank 0 comes");
                comm.finish().expect("rank 0 has announced its end too");
            },
        );
    }
}

#[test]
fn labels_are_compared_across_ranks() {
    let expect = |error: Error| {
        let text = error.to_string();
        assert!(text.contains("Halo and Gradients"), "{text}");
    };
    pair(
        |seat| {
            let device = Host::any(0).expect("a device");
            let comm = Communicator::builder().label::<Halo>().seat(seat).device(device).build();
            expect(comm.connect().expect_err("another label"));
        },
        |seat| {
            let device = Host::any(1).expect("a device");
            let comm =
                Communicator::builder().device(device).label::<Gradients>().seat(seat).build();
            expect(comm.connect().expect_err("another label"));
        },
    );
}

#[test]
fn a_dropped_seat_is_reported_at_once() {
    pair(
        |seat| {
            let error = seat.init(Host::any(0).expect("a device")).map(drop).expect_err("no peer");
            let Error::PeerFailed(lost) = &error else { panic!("{error:?}") };
            assert_eq!(lost.lost, [Rank::from_index(1)]);
            assert!(error.to_string().contains("its seat was dropped and never taken"), "{error}");
        },
        drop,
    );
}

#[test]
fn a_missing_rank_is_named_at_the_deadline_and_can_be_waited_for_again() {
    let (go, wait) = channel::<()>();
    pair(
        move |seat| {
            let starting = seat.start(Host::any(0).expect("a device")).expect("start");
            let soon = Instant::now() + Duration::from_millis(30);
            let failed = starting.try_ready(soon).map(drop).expect_err("nobody there yet");
            let text = failed.error.to_string();
            assert!(text.contains("arrived: 0; rank 1 is missing"), "{text}");
            go.send(()).expect("the peer listens");
            let comm = failed
                .value
                .ready()
                .wait_until(Instant::now() + Duration::from_secs(30))
                .expect("ready");
            comm.finish().expect("finish");
        },
        move |seat| {
            wait.recv().expect("the peer speaks");
            connect(seat).finish().expect("finish");
        },
    );
}

#[test]
fn a_watchdog_ends_a_wait_from_another_thread() {
    let (end, over) = channel::<()>();
    pair(
        move |seat| {
            let comm = connect(seat);
            let mut x = comm.device().zeros::<f32>(4).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            let handle = comm.abort_handle();
            let watchdog = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                handle.abort("no progress for 50 ms")
            });
            let error = x.to_vec().expect_err("the peer never calls");
            let Error::Abort(aborted) = &error else { panic!("{error:?}") };
            assert_eq!(aborted.why, "no progress for 50 ms");
            assert!(error.to_string().contains("lifecycle.rs:"), "{error}");
            assert!(watchdog.join().expect("no panic"), "the request was the first");
            // Poisoned: later calls fail at once with the first cause.
            let again = comm.all_reduce_in_place(&mut x, Sum).expect_err("poisoned");
            assert_eq!(again.to_string(), error.to_string());
            assert!(comm.health().is_err() && comm.barrier().is_err());
            let handle = comm.abort_handle();
            comm.abort();
            assert!(!handle.abort("too late"), "nothing left to abort");
            end.send(()).expect("the peer listens");
        },
        move |seat| {
            let comm = connect(seat);
            over.recv().expect("the peer speaks");
            let mut x = comm.device().zeros::<f32>(4).expect("memory");
            let error = match comm.all_reduce_in_place(&mut x, Sum) {
                Ok(()) => x.to_vec().expect_err("the peer is gone"),
                Err(error) => error,
            };
            assert!(error.is_peer_failure(), "{error:?}");
            assert!(error.to_string().contains("no progress for 50 ms"), "{error}");
        },
    );
}

#[test]
fn a_passed_deadline_names_who_is_missing_and_what_it_did_last() {
    let (end, over) = channel::<()>();
    let (called, until_called) = channel::<()>();
    let first = move |seat| {
        let comm = impatient(seat, 100);
        let mut x = comm.device().zeros::<f32>(4).expect("memory");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        until_called.recv().expect("the peer calls once");
        let error = x.to_vec().expect_err("the peer calls once");
        let text = error.to_string();
        assert!(matches!(error, Error::Timeout(_)), "{text}");
        assert!(text.contains("timeout: to_vec (at tests/lifecycle.rs:"), "{text}");
        assert!(text.contains("collective #1 on World (all_reduce of 4 f32, Sum"), "{text}");
        assert!(text.contains("arrived: 0; rank 1 has not called it"), "{text}");
        assert!(text.contains("its last call was all_reduce of 4 f32"), "{text}");
        assert!(comm.health().is_err());
        end.send(()).expect("the peer listens");
    };
    let second = move |seat| {
        let comm = connect(seat);
        let mut x = comm.device().zeros::<f32>(4).expect("memory");
        comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
        comm.sync(comm.stream()).expect("both have called it");
        called.send(()).expect("the peer listens");
        over.recv().expect("the peer speaks");
        let error = comm.all_reduce_in_place(&mut x, Sum).expect_err("told");
        assert!(error.to_string().contains("timeout: to_vec"), "{error}");
    };
    busy(|| pair(first, second));
}

#[test]
fn a_rank_that_finishes_early_is_reported_to_the_one_that_waits_for_it() {
    pair(
        |seat| {
            let error = connect(seat).finish().expect_err("the peer still communicates");
            assert!(error.is_peer_failure(), "{error}");
        },
        |seat| {
            let comm = connect(seat);
            let mut x = comm.device().zeros::<f32>(4).expect("memory");
            let error = match comm.all_reduce_in_place(&mut x, Sum) {
                Ok(()) => x.to_vec().expect_err("the peer is gone"),
                Err(error) => error,
            };
            let text = error.to_string();
            assert!(
                text.contains("rank 0 left: it called `finish` at tests/lifecycle.rs:"),
                "{text}"
            );
            assert!(text.contains("collective #0 (all_reduce of 4 f32, Sum, at"), "{text}");
        },
    );
}

#[test]
fn a_rank_that_finishes_is_told_who_dropped_its_communicator() {
    pair(
        |seat| {
            let comm = connect(seat);
            let mut x = comm.device().from_slice(&[1_i64]).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            drop(comm); // its work still happens
            assert_eq!(x.to_vec().expect("reduced"), [3]);
        },
        |seat| {
            let comm = connect(seat);
            std::thread::sleep(Duration::from_millis(30));
            let mut x = comm.device().from_slice(&[2_i64]).expect("memory");
            comm.all_reduce_in_place(&mut x, Sum).expect("enqueued");
            assert_eq!(x.to_vec().expect("reduced"), [3]);
            let error = comm.finish().expect_err("rank 0 did not finish");
            let why = "rank 0 left: its communicator was dropped without `finish`";
            assert!(error.is_peer_failure() && error.to_string().ends_with(why), "{error}");
        },
    );
}

#[test]
fn a_rank_that_panics_is_the_cause() {
    let panic = std::panic::catch_unwind(|| {
        typed_nccl::spmd::<Host>(3, |place| {
            let comm = place.init()?;
            if comm.rank().index() == 1 {
                panic!("rank 1 has a bug");
            }
            let mut x = comm.device().zeros::<f32>(4)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            let error = x.to_vec().expect_err("rank 1 is gone");
            let why = "rank 1 left: its thread panicked: rank 1 has a bug";
            assert!(error.to_string().contains(why), "{error}");
            Err(error)
        })
    });
    let panic = panic.expect_err("the panic comes through");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"rank 1 has a bug"));
}

#[test]
fn the_first_cause_is_returned_and_values_otherwise() {
    #[derive(Debug)]
    enum Mine {
        Bug(usize),
        Theirs,
    }
    impl std::fmt::Display for Mine {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }
    impl From<Error> for Mine {
        fn from(_: Error) -> Self {
            Self::Theirs
        }
    }
    let failed = Host::spmd(3, |place| -> Result<(), Mine> {
        let comm = place.init()?;
        if comm.rank().index() == 2 {
            // The others get the error first, and return first.
            drop(comm);
            std::thread::sleep(Duration::from_millis(50));
            return Err(Mine::Bug(2));
        }
        // Waits for the rank that fails: PeerFailed here is a consequence.
        let mut x = comm.device().zeros::<f32>(4)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        x.to_vec()?;
        Ok(())
    });
    assert!(matches!(failed, Err(Mine::Bug(2))), "{failed:?}");
    let ranks = Host::spmd(5, |place| -> Result<Rank> { Ok(place.rank()) }).expect("no failure");
    assert_eq!(ranks.iter().map(|r| r.index()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn health_says_whether_it_can_be_used() {
    let failed = Host::spmd(2, |place| -> Result<String> {
        let comm = place.init()?;
        comm.health()?;
        comm.barrier()?;
        if comm.rank().index() == 0 {
            comm.abort_because("the program ends");
            return Ok(String::new());
        }
        let _ = comm.barrier().expect_err("rank 0 is gone");
        Ok(comm.health().map(drop).expect_err("it is over").to_string())
    });
    let said = failed.expect("no failure");
    assert!(said[1].contains("the program ends"), "{said:?}");
}

#[test]
fn host_values_travel_and_differences_are_named() -> Result<()> {
    spmd::<Host>(3, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let all = comm.gather_values(&(rank, format!("rank {rank}")))?;
        assert_eq!(all[2], (2, "rank 2".to_owned()));
        assert_eq!(comm.broadcast_value(&(rank * 10), 1)?, 10);
        assert!(matches!(comm.broadcast_value(&0_u8, 9), Err(Error::NoSuchRank(_))));
        comm.barrier()?;
        let error = match rank {
            0 => comm.barrier().expect_err("the others gather"),
            _ => comm.gather_values(&rank).expect_err("rank 0 is in a barrier"),
        };
        let text = error.to_string();
        assert!(matches!(error, Error::ValueMismatch(_)) && text.contains("called"), "{text}");
        let error = match rank {
            0 => comm.gather_values(&1_u8).map(drop).expect_err("strings are no bytes"),
            _ => comm.gather_values(&"word".to_owned()).map(drop).expect_err("rank 0 differs"),
        };
        assert!(error.to_string().contains("with values of one type"), "{error}");
        comm.finish()
    })
}

/// A rank that meets nobody has an id of its own, too.
#[test]
fn two_communicators_of_one_rank_over_the_network() -> Result<()> {
    let lone = || -> Result<_> {
        let file = ranks::place();
        let comm = Seat::file(&file, 0, 1)?.init(Host::any(0)?);
        let _ = std::fs::remove_file(file);
        comm
    };
    let (mut one, mut other) = (lone()?, lone()?);
    let (mut source, window) = (one.window::<u32>(2)?, one.window::<u32>(2)?);
    let theirs = [other.window::<u32>(2)?, other.window::<u32>(2)?];
    source.copy_from(&[7, 8])?;
    one.put_signal(&source, 0, window.at(0))?;
    one.wait_signal(0)?;
    assert_eq!(window.to_vec()?, [7, 8]);
    assert_eq!(theirs[1].to_vec()?, [0, 0]);
    drop((source, window, theirs));
    one.finish()?;
    other.finish()
}

/// However far that rank is by then.
#[test]
fn another_call_is_named_with_its_own_line() -> Result<()> {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    typed_nccl::spmd::<Host>(2, |place| {
        let comm = place.init()?;
        if comm.rank().index() == 1 {
            let first = line!();
            assert!(comm.broadcast_value(&0_u8, 9).is_err());
            assert!(comm.broadcast_value(&0_u8, 9).is_err());
            tell.send(first).expect("heard");
        } else {
            let first = told.lock().expect("no panic").recv().expect("told");
            for line in [first + 1, first + 2] {
                let called = format!(" at tests/lifecycle.rs:{line};");
                let error = comm.barrier().expect_err("rank 1 called something else");
                assert!(error.to_string().contains(&called), "{error}");
            }
        }
        comm.finish()
    })
}

#[test]
fn a_communicator_in_a_thread_local_ends_with_its_thread() {
    use std::cell::RefCell;

    type Kept = (Communicator<Host<AnyDevice>>, Buffer<f32, Host<AnyDevice>>);

    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }

    // The thread's first thread-local may be ours or the library's; they are destroyed in order.
    for ours_first in [true, false] {
        let thread = std::thread::spawn(move || -> Result<()> {
            if ours_first {
                KEPT.with_borrow_mut(|kept| *kept = None);
            }
            let device = Host::any(0)?;
            let comm = Seat::local(1).remove(0).init(device.clone())?;
            let mut x = device.from_slice(&[1.0_f32])?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            KEPT.with_borrow_mut(|kept| *kept = Some((comm, x)));
            Ok(())
        });
        thread.join().expect("the process goes on").expect("no error");
    }
}

#[test]
fn a_send_that_nobody_receives_is_told() {
    let told = Mutex::new([const { String::new() }; 2]);
    let end = |seat: Seat| {
        let (rank, comm) = (seat.rank().index(), connect(seat));
        let x = comm.device().zeros::<f32>(1024).expect("memory");
        if rank == 0 {
            comm.send(&x, 1).expect("enqueued");
        }
        let error = comm.finish().expect_err("it is never met");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        told.lock().expect("no panic")[rank] = error.to_string();
    };
    pair(end, end);
    let [here, there] = told.into_inner().expect("no panic");
    let what = "transfer #0 (send of 1024 f32 to 1, at tests/lifecycle.rs:";
    let left = ") on World cannot complete: rank 1 left: it called `finish` at tests/lifecycle.rs:";
    assert!(here.starts_with(what) && here.contains(left), "{here}");
    assert!(there.contains("rank 0 left: ") && there.contains(what), "{there}");
}

/// Whatever operation of a rank lacks another one's part is named, with its line, however that rank
/// left.
#[test]
fn what_lacks_the_part_of_a_rank_that_left_is_named() {
    type Call =
        fn(&mut Communicator<Host<AnyDevice>>, &mut Buffer<f32, Host<AnyDevice>>) -> Result<()>;
    let calls: [(&str, Call); 4] = [
        ("transfer #0 (send of 8 f32 to 1, at ", |comm, x| comm.send(&*x, 1)),
        ("transfer #0 (recv of 8 f32 from 1, at ", |comm, x| comm.recv(x, 1)),
        ("collective #0 (all_reduce of 8 f32, Sum, at ", |comm, x| {
            comm.all_reduce_in_place(x, Sum)
        }),
        ("wait_signal for 1 from 1, at ", |comm, _| comm.wait_signal(1)),
    ];
    let ends: [(&str, fn(Communicator<Host<AnyDevice>>)); 2] = [
        ("it was aborted (at ", |comm| drop(comm.abort())),
        ("its communicator was dropped without `finish`", drop),
    ];
    for ((what, call), (why, end)) in calls.iter().flat_map(|call| ends.map(|end| (call, end))) {
        let called = Barrier::new(2);
        let waits = |seat: Seat| {
            let mut comm = connect(seat);
            let _window = comm.window::<f32>(8).expect("a window");
            let mut x = comm.device().zeros::<f32>(8).expect("memory");
            call(&mut comm, &mut x).expect("enqueued");
            called.wait();
            let error = comm.finish().expect_err("rank 1 left").to_string();
            let left = format!("cannot complete: rank 1 left: {why}");
            assert!(error.starts_with(what) && error.contains(&left), "{what}: {error}");
        };
        let leaves = |seat: Seat| {
            let mut comm = connect(seat);
            let _window = comm.window::<f32>(8).expect("a window");
            called.wait();
            end(comm);
        };
        pair(waits, leaves);
    }
}

#[test]
fn a_host_knows_what_it_can_do() -> Result<()> {
    spmd::<Host<AnyDevice>>(3, |place| {
        let comm = place.init()?;
        let found = comm.properties()?;
        assert_eq!((found.rank, found.size), (comm.rank(), 3));
        assert_eq!((found.device, found.nvml_device), (comm.device().ordinal(), None));
        assert_eq!((found.device_api, found.multimem, found.one_sided), (true, false, Some(true)));
        assert_eq!((found.lsa_teams, found.gin), (Some(1), Some(GinType::None)));
        let near = comm.lsa_team()?;
        assert_eq!(near.size, 3);
        let last = comm.peer(2)?;
        assert_eq!((near.index_of(last), near.to_world(2)), (Some(2), Some(last)));
        let mut odd = near;
        (odd.first, odd.size) = (1, 1);
        assert_eq!((odd.index_of(comm.peer(1)?), odd.index_of(last)), (Some(0), None));
        comm.finish()
    })
}

/// A change that fails ends the communicator; the others hear where the program asked for it.
#[test]
fn a_change_that_fails_is_named_by_its_line() {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        comm.barrier()?;
        if comm.rank().index() == 1 {
            let error = comm.shrink(&[7]).expect_err("there is no rank 7");
            assert!(matches!(error, Error::NoSuchRank(_)), "{error}");
            return Ok(());
        }
        let error = comm.barrier().expect_err("rank 1 has given up").to_string();
        assert!(error.contains("lifecycle.rs") && !error.contains("src/communicator"), "{error}");
        comm.abort();
        Ok(())
    })
    .expect("both ranks are told");
}
