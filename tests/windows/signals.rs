//! Signals: how they are counted, and what is refused.

use typed_nccl::{CommConfig, Communicator, Error, Host, LocalOnly, Result, Signals};

use crate::ranks::spmd;

use super::{Child, Tensor, says};

#[test]
fn signals_count_by_peer_and_slot() -> Result<()> {
    spmd::<Host>(3, |place| {
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
        comm.wait_signals(&Signals::new())?;
        comm.stream().sync()?;
        let missing = comm.signal_in(2, 0).expect_err("two contexts");
        says(&missing, &["no signal 0 in context 2", "2 contexts of 3 signals", ".contexts("]);
        comm.finish()
    })
}

/// Ranks are collected as `expect` takes them, and checked by the wait.
#[test]
fn signals_are_collected_from_ranks() -> Result<()> {
    spmd::<Host>(3, |place| {
        let mut comm = place.init()?;
        let (_window, size) = (comm.window::<f32>(1)?, comm.size());
        match comm.rank().index() {
            0 => {
                comm.wait_signals(&(1..size).collect())?;
                // The same rank twice is two signals, whether as a number or as a `Rank`.
                let mut twice: Signals = [1, 1].into_iter().collect();
                twice.extend([comm.peer(1)?]);
                assert_eq!(twice.iter().map(|(_, _, count)| count).collect::<Vec<_>>(), [3]);
                twice.extend(std::iter::once(2));
                comm.wait_signals(&twice)?;
                comm.wait_signals(&std::iter::empty::<usize>().collect())?;
            }
            rank => (0..if rank == 1 { 4 } else { 2 }).try_for_each(|_| comm.signal(0))?,
        }
        comm.barrier()?;
        comm.sync(comm.stream())?;
        // A rank out of range is refused by the wait.
        let refused = comm.wait_signals(&[size].into_iter().collect());
        let refused = refused.expect_err("no such rank");
        assert!(matches!(refused, Error::NoSuchRank(_)), "{refused}");
        comm.finish()
    })
}

/// With the communicator, and with its successors.
#[test]
fn signals_before_the_first_window() -> Result<()> {
    spmd::<Host>(2, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().early_signals(true).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config.clone()).build();
        let mut comm = comm.connect()?;
        let peer = comm.ring(1);
        for _ in 0..3 {
            comm.signal(peer)?;
            comm.wait_signal(peer)?;
        }
        let mut child = comm.split_with::<Child>(0, 0, config)?;
        child.signal(child.ring(1))?;
        let _window = child.window::<u8>(1)?;
        child.wait_signal(child.ring(1))?;
        let plain = comm.split_with::<Tensor>(0, 0, CommConfig::default())?;
        assert!(matches!(plain.signal(plain.ring(1)), Err(Error::NoWindow(_))));
        drop(plain);
        child.finish()?;
        comm.finish()
    })
}

#[test]
fn signals_that_nobody_awaited_are_said_by_finish() -> Result<()> {
    spmd::<Host>(3, |place| {
        let (seat, device) = place.into_parts();
        let config = CommConfig::builder().contexts(2).signals(2).build();
        let comm = Communicator::builder().seat(seat).device(device).config(config).build();
        let mut comm = comm.connect()?;
        let window = comm.window::<f32>(8)?;
        let (used, spare) = (comm.signal_in(0, 1)?, comm.signal_in(1, 1)?);
        match comm.rank().index() {
            0 => {
                for _ in 0..2 {
                    comm.put_signal(window.slice(0..1), 1, window.at(0))?;
                }
                comm.signal_slot(1, used)?;
                // Not awaited anywhere: puts whose signals are unneeded are written this way.
                comm.put_signal(window.slice(0..1), 1, window.at(1).raising(spare))?;
                comm.finish()
            }
            1 => {
                let gone = comm.try_finish().map(drop).expect_err("three are left");
                says(&gone.error, &["finish: rank 1 did not await all signals on World:"]);
                let (put, signal) = (line!() - 10, line!() - 8);
                let puts =
                    format!(" 2 from rank 0, the last raised at tests/windows/signals.rs:{put}");
                says(&gone.error, &[&puts]);
                let left = format!(
                    "; 1 from rank 0 in context 0, signal 1, the last raised at tests/windows/signals.rs:{signal}"
                );
                says(&gone.error, &[&left, "`comm.wait_signal(rank)`", "raising("]);
                assert!(!gone.error.to_string().contains("context 1"), "{}", gone.error);
                // It is reported once, and does not affect anything else.
                gone.value.finish()
            }
            _ => {
                // A refused signal does not count, and an awaited one is not a surplus.
                assert!(comm.put_signal(&window, 2, window.at(7)).is_err());
                comm.signal_slot(2, used)?;
                let mut one = Signals::new();
                one.expect_in(2_usize, used, 1);
                comm.wait_signals(&one)?;
                comm.finish()
            }
        }
    })
}

#[test]
fn signals_need_a_window() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let peer = comm.ring(1);
        let error = comm.signal(peer).expect_err("no window");
        says(
            &error,
            &["signal (at tests/windows/signals.rs:", "no window yet", "comm.window(len)"],
        );
        assert!(error.is_refusal());
        assert!(matches!(comm.wait_signal(peer), Err(Error::NoWindow(_))));
        let local = comm.device().nccl_zeros::<f32>(4)?;
        let _local = comm.register_window_as(local, LocalOnly)?;
        assert!(matches!(comm.wait_signal(peer), Err(Error::NoWindow(_))));
        let _window = comm.window::<u8>(1)?;
        comm.barrier()?;
        // The wait that takes the refused signal gets the error.
        comm.wait_signal(peer)?;
        match comm.stream().sync() {
            Err(Error::Refused(refused)) => assert_eq!(refused.by, peer),
            other => panic!("not told: {other:?}"),
        }
        comm.signal(peer)?;
        comm.wait_signal(peer)?;
        comm.stream().sync()?;
        comm.finish()
    })
}

/// A wait refused with its group has taken its turn: the next one does not take its signal.
#[test]
fn a_wait_that_is_refused_leaves_its_signal_to_nobody() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let (window, mut source) = (comm.window::<f32>(2)?, comm.window::<f32>(2)?);
        source.copy_from(&[1.0, 2.0])?;
        let peer = comm.ring(1);
        if comm.rank().index() == 0 {
            for at in 0..2 {
                comm.put_signal(source.slice(at..at + 1), 1, window.at(at))?;
            }
            comm.wait_signal(peer)?;
            assert!(matches!(comm.stream().sync(), Err(Error::Refused(_))));
        } else {
            let mut due = Signals::new();
            due.expect(peer);
            let refused = comm.group(|g| {
                g.wait_signals(&due)?;
                g.put_signal(source.slice(0..1), 0, window.at(2))
            });
            assert!(matches!(refused, Err(Error::OutsideWindow(_))), "{refused:?}");
            comm.wait_signal(peer)?;
            assert_eq!(window.to_vec()?, [1.0, 2.0]);
        }
        // No signal is left over.
        comm.finish()
    })
}

/// Without a later wait, its signal is not a surplus either.
#[test]
fn the_signal_of_a_refused_wait_is_not_missed() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let window = comm.window::<f32>(2)?;
        if comm.rank().index() == 0 {
            comm.signal(1)?;
        } else {
            let mut due = Signals::new();
            due.expect(0_usize);
            let refused = comm.group(|g| {
                g.wait_signals(&due)?;
                g.put_signal(window.slice(0..2), 0, window.at(1))
            });
            assert!(matches!(refused, Err(Error::OutsideWindow(_))), "{refused:?}");
        }
        comm.finish()
    })
}

/// NCCL counts signals in a C `int`.
#[test]
fn more_signals_than_can_be_counted_are_refused() -> Result<()> {
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let _window = comm.window::<f32>(1)?;
        let slot = comm.signal_in(0, 0)?;
        let mut due = Signals::new();
        due.expect_in(comm.ring(1), slot, 1 << 30).expect_in(comm.ring(1), slot, 1 << 30);
        let error = comm.wait_signals(&due).expect_err("2^31");
        assert!(matches!(error, Error::TooManySignals(_)) && error.is_refusal(), "{error}");
        says(&error, &["2147483648 signals of rank", "more than the 2147483647", "in several"]);
        let grouped = comm.group(|g| g.wait_signals(&due));
        assert!(matches!(grouped, Err(Error::TooManySignals(_))));
        comm.finish()
    })
}
