//! Windows: registration, puts, closing; the refusals and their messages.

mod addresses;
mod closed;
mod device;
mod mirror;
mod parts;
mod signals;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use typed_nccl::{
    CommConfig, Communicator, Device, Error, Flagged, Host, LocalOnly, Place, Rank, Result, Sum,
    Symmetric, SymmetricStrict, Transfers, Window, WindowKind, tag,
};

use crate::busy::busy;
use crate::ranks::{self, spmd};

fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn a_put_lands_and_its_signal_says_so() -> Result<()> {
    for ranks in [1, 2, 3, 8] {
        spmd::<Host>(ranks, |place| {
            let mut comm = place.init()?;
            let (left, right) = (comm.ring(-1), comm.ring(1));
            let mut mine = comm.window::<u32>(64)?;
            let ghosts = [comm.window::<u32>(64)?, comm.window::<u32>(64)?];
            for turn in 0..20_u32 {
                let ghost = &ghosts[turn as usize % 2];
                mine.copy_from(&[100 * turn + comm.rank().index() as u32; 64])?;
                comm.put_signal(mine.slice(8..24), right, ghost.at(40))?;
                comm.wait_signal(left)?;
                let found = ghost.to_vec()?;
                assert_eq!(found[40..56], [100 * turn + left.index() as u32; 16]);
                assert_eq!(found[..40], [0; 40]);
                comm.barrier()?; // a signal proves arrival, not that the neighbour has read
            }
            comm.finish()
        })?;
    }
    Ok(())
}

#[test]
fn bad_puts_are_refused_and_their_peer_is_told() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let window = comm.window::<f32>(4096)?;
        if comm.rank().index() == 0 {
            let error = comm.put_signal(window.slice(0..16), 1, window.at(4090)).expect_err("past");
            says(&error, &["put_signal: [4090, 4106) ends past rank 1's window of 4096 f32"]);
            says(&error, &["windows.rs:", "nothing was sent"]);
            let error = comm.put_signal(window.slice(0..1), 1, window.at(usize::MAX));
            assert!(matches!(error, Err(Error::OutsideWindow(_))));
            let error = comm.put_signal(window.slice(4090..4100), 1, window.at(0));
            says(
                &error.expect_err("past the source"),
                &["4090..4100 reaches past a buffer of 4096"],
            );
            let error = comm.put_signal(&window, 2, window.at(0)).expect_err("no such rank");
            says(&error, &["put_signal: there is no rank 2 in a communicator of 2"]);
            assert!(matches!(comm.wait_signal(9), Err(Error::NoSuchRank(_))));
        } else {
            // The wait that would have taken the signal reports each refused put.
            for _ in 0..3 {
                comm.wait_signal(0)?;
                match comm.sync(comm.stream()) {
                    Err(Error::Refused(told)) => assert_eq!(told.by, Rank::from_index(0)),
                    other => panic!("not told: {other:?}"),
                }
            }
        }
        comm.barrier()?;
        comm.put_signal(window.slice(0..4), comm.ring(1), window.at(4092))?;
        comm.wait_signal(comm.ring(1))?;
        comm.stream().sync()?;
        comm.finish()
    })
}

#[test]
fn windows_are_compared_across_ranks() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index();
        let len = if rank == 2 { 8 } else { 4 };
        let error = comm.window::<f32>(len).expect_err("the lengths differ");
        says(&error, &["the ranks of World register different windows (at tests/windows.rs:"]);
        says(&error, &["ranks 0 and 1 registered 4 f32, Symmetric; rank 2 registered 8 f32"]);
        says(&error, &["window_uneven", "nothing was registered"]);

        // The buffer comes back.
        let buffer = comm.device().nccl_zeros::<i32>(4)?;
        let outcome = match rank {
            0 => comm.try_register_window_as(buffer, LocalOnly).map(drop),
            _ => comm.try_register_window_as(buffer, SymmetricStrict).map(drop),
        };
        let failed = outcome.expect_err("the kinds differ");
        says(&failed.error, &["rank 0 registered 4 i32, LocalOnly", "SymmetricStrict"]);
        assert_eq!(failed.value.to_vec()?, [0; 4]);

        // A rank without memory reports that to all.
        let error = match rank {
            1 => comm.window::<u8>(isize::MAX as usize - 4096).expect_err("too much"),
            _ => comm.window::<u8>(16).expect_err("rank 1 has none"),
        };
        match rank {
            1 => assert!(matches!(error, Error::NoMemory(_)), "{error}"),
            _ => says(&error, &["rank 1 could not: host:1 has no"]),
        }

        // Different lengths on purpose.
        let mut window = comm.window_uneven::<u64>(rank)?;
        assert_eq!((window.len(), window.len_at(Rank::from_index(2))), (rank, 2));
        window.copy_from(&vec![rank as u64; rank])?;
        comm.barrier()?;
        if rank == 1 {
            comm.put_signal(&window, 2, window.at(1))?;
            let error = comm.put_signal(&window, 0, window.at(0)).expect_err("rank 0 has none");
            says(&error, &["[0, 1) ends past rank 0's window of 0 u64"]);
        }
        if rank == 2 {
            comm.wait_signal(1)?;
            assert_eq!(window.to_vec()?, [2, 1]);
        }
        if rank == 0 {
            comm.wait_signal(1)?;
            assert!(matches!(comm.stream().sync(), Err(Error::Refused(_))));
        }
        comm.finish()
    })
}

#[test]
fn closing_is_collective_and_gives_the_memory_back() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (peer, buffer) = (comm.ring(1), comm.device().nccl_zeros::<i64>(4)?);
        let window = comm.register_window(buffer)?;
        let other = comm.window::<i64>(4)?;
        comm.put_signal(other.slice(0..2), peer, window.at(2))?;
        comm.wait_signal(peer)?;
        // Different windows on the ranks.
        let failed = match comm.rank().index() {
            0 => comm.try_close(window).map(drop),
            _ => comm.try_close(other).map(drop),
        };
        let failed = failed.expect_err("they differ");
        says(&failed.error, &["close different windows", "window #", "none was closed"]);
        // Both still exist; the rank that holds the other one closes it.
        drop(failed);
        let again = comm.window::<i64>(4)?;
        let mut back = comm.close(again)?;
        back.copy_from(&[comm.rank().index() as i64; 4])?;
        comm.all_reduce_in_place(&mut back, Sum)?;
        assert_eq!(back.to_vec()?, [1; 4]);
        // Registered again, with the rules of another communicator.
        let window = comm.register_window_as(back, LocalOnly)?;
        assert_eq!(window.to_vec()?, [1; 4]);
        comm.finish()
    })
}

#[test]
fn a_close_that_is_refused_has_taken_its_turn() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let rank = comm.rank().index();
        let (mut window, mut x) = (comm.window::<i64>(4)?, comm.device().zeros::<i64>(4)?);
        if rank == 0 {
            comm.stream().launch((&mut window, &mut x), |_, ()| panic!("a bug of a test's"))?;
        }
        let Err(failed) = comm.try_close(window) else { panic!("rank 0 has something to tell") };
        match rank {
            0 => says(&failed.error, &["a bug of a test's"]),
            _ => says(&failed.error, &["close different windows", "none (", "a bug of a test's"]),
        }
        // The ranks are in step, and both windows exist.
        assert_eq!(comm.gather_values(&rank)?, [0, 1]);
        comm.close(failed.value)?;
        comm.finish()
    })
}

#[test]
fn windows_of_another_communicator_of_the_same_name_are_refused() -> Result<()> {
    spmd::<Host>(1, |place| {
        let mut comm = place.init()?;
        let mut other = typed_nccl::Seat::local(1).remove(0).init(comm.device().clone())?;
        let (mine, theirs) = (comm.window::<f32>(4)?, other.window::<f32>(4)?);
        let error = comm.put_signal(&theirs, 0, mine.at(0)).expect_err("another's source");
        says(&error, &["a window of World#", "was used on World#", "tag!"]);
        let error = comm.put_signal(&mine, 0, theirs.at(0)).expect_err("another's target");
        assert!(matches!(error, Error::WrongCommunicator(_)));
        let failed = comm.try_close(theirs).map(drop).expect_err("another's window");
        assert!(matches!(failed.error, Error::WrongCommunicator(_)));
        other.close(failed.value)?;
        assert!(comm.peer_ptr(&mine, 0)?.is_some_and(|at| at.as_ptr() == mine.user_ptr()));
        assert!(comm.peer_ptr(&mine, 1).is_err() && comm.multimem_ptr(&mine)?.is_none());
        assert_eq!(comm.lsa_team()?.to_world(0), Some(comm.rank()));
        other.finish()?;
        comm.finish()
    })
}

#[test]
fn buffers_can_be_registered() -> Result<()> {
    let mut comm = typed_nccl::Seat::local(1).remove(0).init(Host::local()?)?;
    let buffer = comm.device().zeros::<f32>(100)?;
    let registration = comm.register_buffer(&buffer)?;
    assert_eq!((registration.size(), registration.is_valid()), (400, true));
    assert!(registration.handle().is_some());
    comm.deregister_buffer(registration)?;
    let kept = comm.register_buffer(&buffer)?;
    comm.finish()?;
    assert!(!kept.is_valid());
    Ok(())
}

/// Any flags, chosen when it is compiled; a put needs the symmetric one.
#[test]
fn flags_are_combined() -> Result<()> {
    const STRICT: u32 = 2;
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let peer = comm.ring(1);
        let buffer = comm.device().nccl_zeros::<i64>(4)?;
        let strict = comm.register_window_as(buffer, Flagged::<STRICT>)?;
        assert_eq!(strict.flags().bits(), 2);
        let buffer = comm.device().nccl_zeros::<i64>(4)?;
        let both = comm.register_window_as(buffer, Flagged::<{ Symmetric::BITS | STRICT }>)?;
        comm.put_signal(both.slice(0..2), peer, both.at(2))?;
        comm.wait_signal(peer)?;
        // Another combination on another rank.
        let buffer = comm.device().nccl_zeros::<i64>(4)?;
        let error = match comm.rank().index() {
            0 => comm.register_window_as(buffer, Flagged::<8>).map(drop),
            _ => comm.register_window_as(buffer, Flagged::<9>).map(drop),
        };
        says(&error.expect_err("they differ"), &["Flagged<8>", "Flagged<9>"]);
        comm.finish()
    })
}

fn registered<T>(place: Place<Host<T>>, transfers: Transfers) -> Result<Communicator<Host<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().transfers(transfers).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// The host treats all memory alike, but refuses what GPUs refuse.
#[test]
fn transfers_of_registered_memory() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = registered(place, Transfers::Registered)?;
        let peer = comm.ring(1);
        let mut window = comm.window::<u32>(64)?;
        let mut buffer = comm.device().nccl_zeros::<u32>(64)?;
        let mut plain = comm.device().zeros::<u32>(64)?;
        let held = comm.register_buffer(&buffer.slice(8..40))?;
        let _plain_too = comm.register_buffer(&plain)?;
        window.copy_from(&[comm.rank().index() as u32 + 7; 64])?;
        comm.group(|g| {
            g.send(window.slice(0..32), peer)?;
            g.recv(buffer.slice_mut(8..40), peer)
        })?;
        assert_eq!(buffer.to_vec()?[8..40], [peer.index() as u32 + 7; 32]);
        for outcome in [
            comm.group(|g| g.send(&plain, peer)),
            comm.recv(&mut plain, peer),
            comm.send(&buffer.slice(7..40), peer),
            comm.send(&buffer.slice(8..41), peer),
        ] {
            let error = outcome.expect_err("it is not registered");
            assert!(error.is_refusal() && matches!(error, Error::NotRegistered(_)), "{error}");
            says(&error, &["memory that is not", "Transfers::Registered", "tests/windows.rs:"]);
        }
        // Collectives take any.
        comm.all_reduce_in_place(&mut plain, Sum)?;
        comm.deregister_buffer(held)?;
        let outcome = comm.send(&buffer.slice(8..40), peer);
        assert!(matches!(outcome, Err(Error::NotRegistered(_))));
        Ok(())
    })
}

#[test]
fn the_ranks_choose_one_kind_of_transfers() -> Result<()> {
    spmd::<Host>(2, |place| {
        let choices = [Transfers::Any, Transfers::Registered];
        let choice = choices[place.rank().index()];
        let error = registered(place, choice).expect_err("they differ");
        says(&error, &["configure it with `Transfers::Any` and `Transfers::Registered`"]);
        Ok(())
    })?;
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let choices = [Transfers::Any, Transfers::Registered];
        let config = CommConfig::builder().transfers(choices[comm.rank().index()]).build();
        let child = comm.split_with::<Child>(0, 0, config);
        let error = child.map(drop).expect_err("they differ");
        says(&error, &["configure it with `Transfers::Any` and `Transfers::Registered`"]);
        comm.finish()
    })
}

tag!(Child);

tag!(Tensor, Data);

/// Two of each: the tensor-parallel neighbour and the data-parallel one put into the same memory.
#[test]
fn one_memory_in_windows_of_two_communicators() -> Result<()> {
    for case in 0..4 {
        spmd::<Host>(4, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index() as u32;
            let mut tensor = comm.split::<Tensor>(rank / 2, 0)?;
            let mut data = comm.split::<Data>(rank % 2, 0)?;
            let mut grads = data.window::<u32>(64)?;
            let shared = grads.also_in(&mut tensor)?;
            assert_eq!((shared.len(), shared.len_at(0)), (64, 64));
            let (near, far) = (tensor.ring(1), data.ring(1));
            for turn in 0..20_u32 {
                let value = |rank: u32| [100 * turn + rank; 8];
                grads.slice_mut(0..8).copy_from(&value(rank))?;
                tensor.put_signal(shared.of(&grads)?.slice(0..8), near, shared.at(16))?;
                data.put_signal(grads.slice(0..8), far, grads.at(32))?;
                tensor.wait_signal(near)?;
                data.wait_signal(far)?;
                let found = grads.to_vec()?;
                assert_eq!(found[16..24], value(rank ^ 1));
                assert_eq!(found[32..40], value(rank ^ 2));
                tensor.barrier()?;
                data.barrier()?;
            }
            // An operand of both, through the one window.
            grads.copy_from(&[1; 64])?;
            tensor.all_reduce_in_place(&mut grads, Sum)?;
            data.all_reduce_in_place(&mut grads, Sum)?;
            assert_eq!(grads.to_vec()?, [4; 64]);
            // They end in any order.
            match case {
                0 => {
                    tensor.close_shared(shared)?;
                    assert_eq!(data.close(grads)?.to_vec()?, [4; 64]);
                }
                1 => {
                    let buffer = data.close(grads)?;
                    let own = tensor.window::<u32>(8)?;
                    tensor.put_signal(&own, near, shared.at(56))?;
                    tensor.wait_signal(near)?;
                    assert_eq!(buffer.to_vec()?[48..], [[4; 8], [0; 8]].concat());
                    tensor.close_shared(shared)?;
                }
                2 => {
                    drop(shared);
                    data.close(grads).map(drop)?;
                }
                _ => {
                    drop(grads);
                    data.finish()?;
                    tensor.close_shared(shared)?;
                    tensor.finish()?;
                    return comm.finish();
                }
            }
            tensor.finish()?;
            data.finish()?;
            comm.finish()
        })?;
    }
    Ok(())
}

#[test]
fn memory_is_in_one_window_of_a_communicator() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut other = comm.split::<Tensor>(0, 0)?;
        let (mut first, second) = (comm.window::<u32>(8)?, comm.window::<u32>(8)?);
        let error = first.also_in(&mut comm).expect_err("it is in one");
        assert!(matches!(error, Error::BadWindow(_)), "{error}");
        says(&error, &["in a window of World", "already (at tests/windows.rs:"]);
        let shared = first.also_in(&mut other)?;
        let error = first.also_in_as(&mut other, LocalOnly).expect_err("it is in one");
        says(&error, &["in a window of Tensor"]);
        let error = shared.of(&second).map(drop).expect_err("other memory");
        says(&error, &["the window has other memory than what was registered with Tensor"]);
        // Different lengths work as with any window.
        let mine = comm.window_uneven::<u32>(4 + comm.rank().index())?;
        let uneven = mine.also_in(&mut other)?;
        assert_eq!([uneven.len_at(0), uneven.len_at(1)], [4, 5]);
        // The two communicators' windows may be on different threads.
        std::thread::scope(|scope| {
            let peer = other.ring(1);
            let waits = scope.spawn(move || {
                for _ in 0..200 {
                    other.signal(peer)?;
                    other.wait_signal(peer)?;
                }
                other.close_shared(shared)?;
                other.finish()
            });
            for _ in 0..200 {
                comm.all_reduce_in_place(&mut first, Sum)?;
            }
            first.to_vec()?;
            waits.join().expect("no panic")
        })?;
        comm.finish()
    })
}

#[test]
fn memory_in_a_window_of_another_communicator_is_not_exported() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut other = comm.split::<Tensor>(0, 0)?;
        let window = comm.window::<f32>(4)?;
        let shared = window.also_in(&mut other)?;
        let memory = comm.close(window)?.into_dyn();
        // Its new owner would not know of signals that say that a put has arrived.
        let failed =
            typed_nccl::interop::Tensor::export(memory, &[4], None).expect_err("it is in one");
        says(&failed.error, &["export", "in use by a window of another communicator"]);
        other.close_shared(shared)?;
        assert!(typed_nccl::interop::Tensor::export(failed.value, &[4], None).is_ok());
        other.finish()?;
        comm.finish()
    })
}

/// A struct that owns a communicator and its windows.
struct Halo<D: Device> {
    comm: Communicator<D>,
    edge: Window<f32, D>,
    ghost: [Window<f32, D>; 2],
    turn: usize,
}

impl<D: Device> Halo<D> {
    fn new(mut comm: Communicator<D>) -> Result<Self> {
        let edge = comm.window(8)?;
        let ghost = [comm.window(8)?, comm.window(8)?];
        Ok(Self { comm, edge, ghost, turn: 0 })
    }

    fn step(&mut self) -> Result<Vec<f32>> {
        let ghost = &self.ghost[self.turn % 2];
        self.edge.copy_from(&[self.turn as f32; 8])?;
        self.comm.put_signal(&self.edge, self.comm.ring(1), ghost.at(0))?;
        self.comm.wait_signal(self.comm.ring(-1))?;
        self.turn += 1;
        ghost.to_vec()
    }
}

#[test]
fn a_struct_owns_its_windows_moves_and_aborts_with_them_alive() {
    std::thread::scope(|scope| {
        for seat in typed_nccl::Seat::local(2) {
            scope.spawn(move || {
                let rank = seat.rank().index();
                let device = Host::any(rank as u32).expect("a device");
                let mut halo = Halo::new(seat.init(device).expect("init")).expect("windows");
                assert_eq!(halo.step().expect("a step"), [0.0; 8]);
                let moved = std::thread::spawn(move || {
                    assert_eq!(halo.step().expect("a step"), [1.0; 8]);
                    halo.comm.barrier().expect("both took it");
                    if rank == 0 {
                        // The error path: the windows are alive, the peer's wait unsatisfied.
                        halo.comm.abort_because("out of tolerance");
                        return;
                    }
                    let error = loop {
                        if let Err(error) = halo.step() {
                            break error;
                        }
                    };
                    says(&error, &["rank 0 left: it was aborted", "out of tolerance"]);
                    halo.comm.abort();
                });
                moved.join().expect("no panic");
            });
        }
    });
}

#[test]
fn a_put_that_meets_the_owners_work_is_a_hazard_not_undefined() -> Result<()> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    let found = AtomicUsize::new(0);
    typed_nccl::spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut window = comm.window::<u64>(1 << 12)?;
        let source = comm.window::<u64>(1 << 12)?;
        if comm.rank().index() == 0 {
            // Nothing orders this with the peer's puts.
            comm.stream().launch(&mut window, |w, ()| {
                STARTED.store(true, Ordering::Release);
                for round in 0..50 {
                    w.fill(round);
                    std::thread::sleep(Duration::from_millis(1));
                }
            })?;
        }
        comm.barrier()?;
        if comm.rank().index() == 1 {
            while !STARTED.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for _ in 0..5 {
                comm.put_signal(&source, 0, window.at(0))?;
            }
            // If the order of uses is checked, both ranks get an error with both lines.
            if let Err(error) = comm.stream().sync() {
                says(&error, &["of a window of u64 of rank 0", "nothing orders the two"]);
            }
        }
        comm.barrier()?;
        if comm.rank().index() == 0
            && let Err(error) = comm.stream().sync()
        {
            says(&error, &["of rank 0", "put", "nothing orders the two", "signal"]);
            found.fetch_add(1, Ordering::Relaxed);
        }
        match comm.finish() {
            Err(Error::Hazard(_) | Error::Unawaited(_)) => Ok(()),
            outcome => outcome,
        }
    })?;
    assert_eq!(found.into_inner(), 1, "the owner is told, once");
    Ok(())
}

#[test]
fn a_close_that_is_half_done_is_the_end() -> Result<()> {
    let (gave_up, hears) = channel();
    let hears = Mutex::new(hears);
    let outcomes = busy(|| {
        Host::spmd(2, |place| -> Result<Error> {
            let (seat, device) = place.into_parts();
            let config = CommConfig::builder().deadline(Duration::from_millis(300)).build();
            let comm = Communicator::builder().seat(seat).device(device).config(config).build();
            let mut comm = ranks::connect(comm)?;
            let mut patient = comm.within(Duration::from_secs(20));
            let window = patient.window::<f32>(16)?;
            // A timeout on one rank may fail another that has not returned.
            patient.barrier()?;
            drop(patient);
            if comm.rank().index() == 1 {
                // Too late: its part alone would complete the exchange.
                hears.lock().expect("no panic").recv().expect("rank 0 gives up");
                return Ok(comm.close(window).expect_err("rank 0 gave up"));
            }
            let failed = comm.try_close(window).expect_err("rank 1 is late");
            gave_up.send(()).expect("rank 1 listens");
            assert!(matches!(failed.error, Error::Timeout(_)), "{}", failed.error);
            // The window may be gone on the other rank, so nothing is put there.
            let put = comm.put_signal(&failed.value, 1, failed.value.at(0));
            Ok(put.expect_err("the communicator is poisoned"))
        })
    })?;
    says(&outcomes[0], &["timeout: close"]);
    says(&outcomes[1], &["rank 0 left", "timeout: close"]);
    Ok(())
}
