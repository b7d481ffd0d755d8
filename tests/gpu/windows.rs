//! Windows, puts, signals, waits.

use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{
    CommConfig, Communicator, Cuda, Error, LocalOnly, NcclVersion, Result, Signals, Sum, TeamOf,
    Transfers, library, tag,
};

use crate::common::{connect, ranks, says, seconds, soon};

/// Whether the loaded NCCL has one-sided operations; reports if not.
pub(crate) fn one_sided() -> Result<bool> {
    let version = library::version()?;
    if version >= NcclVersion::new(2, 29, 0) {
        return Ok(true);
    }
    println!("SKIPPED: NCCL {version} has no one-sided operations");
    Ok(false)
}

pub(crate) fn puts_land_and_signals_say_so() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    for n in [1, ranks()?] {
        Cuda::spmd(n, |place| {
            let mut comm = connect(place, 30)?;
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

pub(crate) fn signals_count_by_peer_and_slot() -> Result<()> {
    let outcome = Cuda::spmd(ranks()?, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().contexts(2).signals(3).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        let mut comm = comm.connect()?;
        let (next, before) = (comm.ring(1), comm.ring(-1));
        let mut window = comm.window::<f64>(8)?;
        window.copy_from(&[comm.rank().index() as f64; 8])?;
        comm.barrier()?;
        let slot = comm.signal_in(1, 2)?;
        comm.put_signal(window.slice(0..1), next, window.at(4).raising(slot))?;
        comm.put_signal(window.slice(0..1), next, window.at(5).raising(slot))?;
        comm.signal(next)?;
        let mut all = Signals::new();
        all.expect_in(before, slot, 2).expect(before);
        comm.wait_signals(&all)?;
        assert_eq!(window.to_vec()?[4..6], [before.index() as f64; 2]);

        // A surplus signal stays, and satisfies a later wait.
        comm.signal_slot(next, slot)?;
        comm.signal_slot(next, slot)?;
        for _ in 0..2 {
            let mut one = Signals::new();
            one.expect_in(before, slot, 1);
            comm.wait_signals(&one)?;
        }
        comm.stream().sync()?;
        comm.finish()
    });
    match outcome {
        Err(error @ Error::Unsupported(_)) => {
            println!("SKIPPED: {error}");
            Ok(())
        }
        outcome => outcome.map(drop),
    }
}

pub(crate) fn windows_close_and_their_memory_goes_on() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 30)?;
        for turn in 0..3_u32 {
            let mut window = comm.window::<u32>(100_000)?;
            window.copy_from(&vec![turn + 1; 100_000])?;
            comm.all_reduce_in_place(&mut window, Sum)?;
            let sum = comm.size() as u32 * (turn + 1);
            let mut buffer = comm.close(window)?;
            assert!(buffer.to_vec()?.iter().all(|&x| x == sum));
            comm.all_reduce_in_place(&mut buffer, Sum)?;
            let again = comm.register_window_as(buffer, LocalOnly)?;
            assert!(again.to_vec()?.iter().all(|&x| x == sum * comm.size() as u32));
            // Kept until the communicator ends.
            drop(again);
        }
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn windows_that_differ() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 30)?;
        let len = 4 << comm.rank().index();
        let error = comm.window::<f32>(len).expect_err("the lengths differ");
        says(&error, &["rank 0 registered 4 f32, Symmetric; rank 1 registered 8 f32"]);
        let mut uneven = comm.window_uneven::<f32>(len)?;
        assert_eq!(uneven.len_at(comm.ring(1)), 12 - len);
        uneven.copy_from(&vec![1.0; len])?;
        comm.finish()
    })
    .map(drop)
}

tag!(Later);

pub(crate) fn signals_need_a_window() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 30)?;
        for _ in 0..2 {
            let error = comm.signal(comm.ring(1)).expect_err("no window");
            says(&error, &["signal", "no window yet", "comm.window(len)"]);
            assert!(error.is_refusal());
            assert!(matches!(comm.wait_signal(comm.ring(1)), Err(Error::NoWindow(_))));
        }
        // On this communicator a wait would take the refused signals.
        let mut later = comm.split::<Later>(0, 0)?;
        let _window = later.window::<u8>(1)?;
        match later.signal(later.ring(1)).and_then(|()| later.wait_signal(later.ring(1))) {
            Err(error @ Error::Unsupported(_)) => println!("SKIPPED: {error}"),
            outcome => outcome?,
        }
        later.finish()?;
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn addresses_of_peers() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 30)?;
        let window = comm.window::<f32>(1024)?;
        let team = comm.lsa_team()?;
        let own = team.to_world(team.rank);
        assert_eq!(own, Some(comm.rank()));
        assert_eq!(team.index_of(comm.rank()), Some(team.rank));
        if one_sided()? {
            for index in 0..team.size {
                let peer = team.to_world(index).expect("in the team");
                assert!(comm.peer_ptr(&window, peer)?.is_some(), "{peer} of {team:?}");
            }
        }
        assert!(comm.multimem_ptr(&window).is_ok());
        let registered = comm.register_buffer(&comm.device().zeros::<f32>(1 << 20)?)?;
        comm.deregister_buffer(registered)?;
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn an_abort_while_a_peer_waits_for_a_signal() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    let started = Instant::now();
    Cuda::spmd(2, |place| -> Result<()> {
        let mut comm = connect(place, 40)?;
        let window = comm.window::<f32>(1024)?;
        if comm.rank().index() == 1 {
            comm.put_signal(window.slice(0..10), 0, window.at(20))?;
            comm.abort_because("it stops here");
            return Ok(());
        }
        let mut two = Signals::new();
        two.expect(1_usize).expect(1_usize);
        let error = comm.wait_signals(&two).and_then(|()| window.to_vec().map(drop));
        says(&error.expect_err("the second never comes"), &["it stops here"]);
        Ok(())
    })?;
    soon(started);
    // The GPUs still work, and so does their memory.
    crate::basics::host_copies_and_zeroes()?;
    crate::lifecycle::again_and_again()
}

/// Operations between memory in windows and other memory.
pub(crate) fn windows_and_buffers_mixed() -> Result<()> {
    let only: Option<usize> = std::env::var("COMBO").ok().and_then(|n| n.parse().ok());
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 4)?;
        let len = 1 << 18;
        let mut a = comm.window::<u32>(2 * len)?;
        let mut b = comm.device().zeros::<u32>(2 * len)?;
        let (peer, first) = (comm.ring(1), comm.rank().index() == 0);
        for combo in 0..8 {
            if only.is_some_and(|only| only != combo) {
                continue;
            }
            for n in [1, 1000, 2515, 12000, 65536, len] {
                println!("combo {combo}, {n} elements, rank {}", comm.rank());
                match combo {
                    0 if first => comm.send(&a.slice(0..n), peer)?,
                    0 => comm.recv(&mut b.slice_mut(0..n), peer)?,
                    1 if first => comm.send(&b.slice(0..n), peer)?,
                    1 => comm.recv(&mut a.slice_mut(0..n), peer)?,
                    2 => comm.group(|g| {
                        g.send(a.slice(0..n), peer)?;
                        g.recv(b.slice_mut(0..n), peer)
                    })?,
                    3 => comm.group(|g| {
                        g.send(b.slice(0..n), peer)?;
                        g.recv(a.slice_mut(0..n), peer)
                    })?,
                    4 => comm.all_reduce(&b.slice(0..n), &mut a.slice_mut(0..n), Sum)?,
                    5 => comm.all_reduce(&a.slice(0..n), &mut b.slice_mut(0..n), Sum)?,
                    6 => comm.all_gather(&a.slice(0..n), &mut b.slice_mut(0..2 * n))?,
                    _ => comm.all_gather(&b.slice(0..n), &mut a.slice_mut(0..2 * n))?,
                }
                comm.sync(comm.stream())?;
            }
        }
        comm.finish()
    })
    .map(drop)
}

/// The numbers that rank `rank` sends in a turn.
fn numbers(rank: usize, turn: usize, n: usize) -> Vec<u32> {
    (0..n).map(|i| (i * 7 + turn * 1000 + rank) as u32).collect()
}

/// Windows, registered buffers and parts of them, without a copy, before and after other
/// operations.
pub(crate) fn registered_transfers() -> Result<()> {
    Cuda::spmd(2, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().deadline(seconds(10));
        let config = config.transfers(Transfers::Registered).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        let mut comm = comm.connect()?;
        let (rank, peer, len) = (comm.rank().index(), comm.ring(1), 1 << 20);
        let mut window = comm.window::<u32>(len)?;
        let local = comm.device().nccl_zeros::<u32>(len)?;
        let mut local = comm.register_window_as(local, LocalOnly)?;
        let mut buffer = comm.device().nccl_zeros::<u32>(2 * len)?;
        let plain = comm.device().zeros::<u32>(len)?;
        let part = len / 2..len / 2 + len;
        let held = comm.register_buffer(&buffer.slice(part.clone()))?;
        assert!(held.handle().is_some());
        for (turn, n) in [1, 1000, 12_000, 65_536, len].into_iter().enumerate() {
            let sent = numbers(rank, turn, n);
            let expected = numbers(peer.index(), turn, n);
            let inside = part.start + 5..part.start + 5 + n.min(len - 5);
            window.slice_mut(0..n).copy_from(&sent)?;
            comm.group(|g| {
                g.send(window.slice(0..n), peer)?;
                g.recv(local.slice_mut(0..n), peer)
            })?;
            comm.all_reduce(&plain, &mut window, Sum)?;
            assert_eq!(local.slice(0..n).to_vec()?, expected);
            comm.group(|g| {
                g.send(local.slice(0..inside.len()), peer)?;
                g.recv(buffer.slice_mut(inside.clone()), peer)
            })?;
            // The data sent from here comes back.
            assert_eq!(buffer.slice(inside.clone()).to_vec()?, sent[..inside.len()]);
        }
        comm.deregister_buffer(held)?;
        comm.close(local)?;
        comm.barrier()?;
        if rank == 0 {
            let error = comm.send(&plain, peer).expect_err("it is not registered");
            says(&error, &["Transfers::Registered", "nccl_zeros"]);
        } else {
            // Whether or not it has learnt of that yet.
            let _ = comm.recv(&mut window, peer).and_then(|()| window.to_vec().map(drop));
        }
        Ok(())
    })
    .map(drop)
}

/// Windows, registered buffers, unregistered NCCL memory, and plain memory.
pub(crate) fn any_memory_meets_any_other() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 10)?;
        let (first, peer, len) = (comm.rank().index() == 0, comm.ring(1), 1 << 18);
        let mut window = comm.window::<u32>(len)?;
        let mut kept = comm.device().nccl_zeros::<u32>(len)?;
        let mut nccls = comm.device().nccl_zeros::<u32>(len)?;
        let mut plain = comm.device().zeros::<u32>(len)?;
        let mut known = comm.device().zeros::<u32>(len)?;
        let _kept = [comm.register_buffer(&kept)?, comm.register_buffer(&known)?];
        let mut all = [
            window.local_mut(),
            kept.slice_mut(0..len),
            nccls.slice_mut(0..len),
            plain.slice_mut(0..len),
            known.slice_mut(0..len),
        ];
        for turn in 0..all.len() * all.len() {
            let (from, to) = (turn / all.len(), turn % all.len());
            let sent = numbers(0, turn, len);
            if first {
                all[from].copy_from(&sent)?;
                comm.send(&all[from], peer)?;
            } else {
                comm.recv(&mut all[to], peer)?;
                assert_eq!(all[to].to_vec()?, sent, "turn {turn}");
            }
        }
        comm.finish()
    })
    .map(drop)
}

/// A window's memory in a child's window too: both communicators' puts arrive, and they end in any
/// order.
pub(crate) fn one_memory_in_windows_of_two_communicators() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    for case in 0..3 {
        Cuda::spmd(ranks()?, |place| {
            let mut comm = connect(place, 30)?;
            let mut other = comm.split::<Later>(0, 0)?;
            let (rank, left, right) = (comm.rank().index() as u32, comm.ring(-1), comm.ring(1));
            let mut window = comm.window::<u32>(4096)?;
            let shared = window.also_in(&mut other)?;
            for turn in 0..20_u32 {
                let value = |rank: u32| vec![100 * turn + rank; 512];
                window.slice_mut(0..512).copy_from(&value(rank))?;
                comm.barrier()?;
                comm.put_signal(window.slice(0..512), right, window.at(512))?;
                other.put_signal(shared.of(&window)?.slice(0..512), left, shared.at(1024))?;
                comm.wait_signal(left)?;
                other.wait_signal(right)?;
                let found = window.to_vec()?;
                assert_eq!(found[512..1024], value(left.index() as u32));
                assert_eq!(found[1024..1536], value(right.index() as u32));
            }
            comm.barrier()?;
            window.copy_from(&vec![1; 4096])?;
            other.all_reduce_in_place(&mut window, Sum)?;
            assert_eq!(window.to_vec()?, vec![comm.size() as u32; 4096]);
            match case {
                0 => {
                    other.close_shared(shared)?;
                    comm.all_reduce_in_place(&mut window, Sum)?;
                    comm.close(window)?;
                }
                1 => {
                    let mut buffer = comm.close(window)?;
                    other.all_reduce_in_place(&mut buffer, Sum)?;
                    other.close_shared(shared)?;
                }
                _ => drop((shared, window)),
            }
            other.finish()?;
            comm.finish()
        })?;
    }
    Ok(())
}

pub(crate) fn signals_before_the_first_window() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    Cuda::spmd(ranks()?, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().deadline(seconds(30)).early_signals(true).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        let mut comm = comm.connect()?;
        let (left, right) = (comm.ring(-1), comm.ring(1));
        for _ in 0..10 {
            comm.signal(right)?;
            comm.wait_signal(left)?;
        }
        comm.sync(comm.stream())?;
        // A window's addresses are the same.
        let mut window = comm.window::<u32>(64)?;
        window.copy_from(&[comm.rank().index() as u32; 64])?;
        comm.barrier()?;
        comm.put_signal(window.slice(0..8), right, window.at(32))?;
        comm.wait_signal(left)?;
        assert_eq!(window.to_vec()?[32..40], [left.index() as u32; 8]);
        comm.finish()
    })
    .map(drop)
}

/// Handles, teams and endpoints, as far as the machine supports them.
pub(crate) fn what_kernels_are_given() -> Result<()> {
    Cuda::spmd(2, |place| {
        let mut comm = connect(place, 30)?;
        let window = comm.window::<f32>(1024)?;
        assert!(comm.window_handle(&window)?.is_some());
        for of in [TeamOf::Rail, TeamOf::Counted, TeamOf::CountedLsa, TeamOf::CountedMulticast] {
            println!("{of:?}: {:?}", comm.team(of)?);
        }
        println!("{:?}", comm.endpoint_at(window.at(8), comm.ring(1)));
        comm.close(window)?;
        comm.finish()
    })
    .map(drop)
}

pub(crate) fn registrations_end_in_any_order() -> Result<()> {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        Cuda::spmd(ranks()?, |place| {
            let mut comm = connect(place, 30)?;
            let mut x = comm.device().nccl_zeros::<f32>(1 << 20)?;
            let plain = comm.device().zeros::<f32>(10)?;
            let (window, closing) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
            let operator = comm.pre_mul_sum(0.5_f32)?;
            let mut held = [
                Some(comm.register_buffer(&x)?),
                Some(comm.register_buffer(&x.slice(0..10))?),
                Some(comm.register_buffer(&x.slice(1000..100_000))?),
                Some(comm.register_buffer(&plain)?),
            ];
            comm.all_reduce_in_place(&mut x, &operator)?;
            for index in order {
                comm.deregister_buffer(held[index].take().expect("once"))?;
                // The ranks' memory is of one kind, or the operation would not end.
                comm.all_reduce_in_place(&mut x, Sum)?;
            }
            drop((window, operator, comm.register_buffer(&x)?));
            comm.close(closing)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            drop(x);
            comm.finish()
        })?;
    }
    Ok(())
}

/// Rank 0 refuses a put past the end of a window, and then does `then`; rank 1 waits for its
/// signal.
fn refused(
    then: impl for<'id> Fn(Communicator<Cuda<typed_nccl::Scoped<'id>>>) -> Result<()> + Sync,
) -> Result<()> {
    let started = Instant::now();
    Cuda::spmd(2, |place| -> Result<()> {
        let mut comm = connect(place, 40)?;
        let window = comm.window::<f32>(1024)?;
        if comm.rank().index() == 0 {
            let put = comm.put_signal(window.slice(0..10), 1, window.at(1020));
            assert!(put.is_err_and(|error| error.is_refusal()));
            return then(comm);
        }
        let waited = comm.wait_signal(0).and_then(|()| window.to_vec().map(drop));
        let error = waited.expect_err("rank 0 refused");
        says(&error, &["wait_signal", "rank 0 refused its part", "[1020, 1030)"]);
        Ok(())
    })?;
    soon(started);
    Ok(())
}

pub(crate) fn a_refused_put_is_told_to_who_waits() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    // It continues for a while.
    refused(|comm| {
        let until = Instant::now() + seconds(20);
        while comm.health().is_ok() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        says(&comm.health().expect_err("rank 1 tells"), &["rank 1 left", "refused its part"]);
        Ok(())
    })?;
    // The GPUs still work, and so does their memory.
    crate::basics::host_copies_and_zeroes()?;
    crate::lifecycle::again_and_again()
}

/// The process ends at once.
pub(crate) fn a_refused_put_and_the_end() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    refused(|comm| {
        drop(comm);
        Ok(())
    })
}

pub(crate) fn who_waits_for_a_rank_that_left_is_told() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    for finishes in [true, false] {
        let started = Instant::now();
        Cuda::spmd(2, |place| -> Result<()> {
            let mut comm = connect(place, 40)?;
            let window = comm.window::<f32>(1024)?;
            if comm.rank().index() == 0 {
                if finishes {
                    says(&comm.finish().expect_err("rank 1 waits"), &["rank 1 left"]);
                }
                return Ok(());
            }
            let waited = comm.wait_signal(0).and_then(|()| window.to_vec().map(drop));
            let error = waited.expect_err("rank 0 left");
            assert!(matches!(error, Error::PeerFailed(_)), "{error}");
            says(&error, &["wait_signal", "rank 0 left"]);
            Ok(())
        })?;
        soon(started);
    }
    crate::basics::host_copies_and_zeroes()?;
    crate::lifecycle::again_and_again()
}

/// Both wait, both give up, and the process ends at once.
pub(crate) fn a_wait_that_nobody_answers_and_the_end() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    Cuda::spmd(2, |place| -> Result<()> {
        let mut comm = connect(place, 3)?;
        let window = comm.window::<f32>(1024)?;
        let waited = comm.wait_signal(comm.ring(1)).and_then(|()| window.to_vec().map(drop));
        println!("{}", waited.expect_err("nobody raises it"));
        Ok(())
    })
    .map(drop)
}
