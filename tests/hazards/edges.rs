//! Each thing that establishes order, next to a program in which it is missing or points the other
//! way.

use std::sync::{Barrier, mpsc};

use typed_nccl::error::{Hazard, OtherUse};
use typed_nccl::{Rank, Result, Root, Sum};

use super::play::{Player, line_of, play};

/// A program whose put is ordered before or after the read.
fn silent(ranks: usize, program: impl Fn(&mut Player) -> Result<()> + Sync) {
    // The actual order is chance, and makes no difference.
    for _ in 0..10 {
        let told = play(ranks, &program);
        assert!(told.iter().all(Vec::is_empty), "{told:?}");
    }
}

/// A program in which nothing orders rank 0's put and another use of rank 1's window: both get the
/// error.
fn reported(ranks: usize, program: impl Fn(&mut Player) -> Result<()> + Sync) -> Vec<Hazard> {
    for _ in 0..10 {
        let told = play(ranks, &program);
        for told in &told[..2] {
            assert!(!told.is_empty(), "rank 0 and rank 1 are told");
            for hazard in told {
                let no_order = hazard.no_order.as_ref().expect("with both lines");
                assert_eq!(no_order.from.index(), 0, "{hazard}");
                assert!(no_order.put.site.file().ends_with("play.rs"), "{hazard}");
                assert!(no_order.other.site.file().ends_with(".rs"), "{hazard}");
            }
        }
        assert!(told[2..].iter().all(Vec::is_empty), "{told:?}");
    }
    play(ranks, program).remove(1)
}

/// Whichever of rank 0's put and rank 1's read was first, the other order may be what is meant.
fn names_both_mends(hazard: &Hazard) {
    let text = hazard.to_string();
    let mends = [
        "if the read shall see what is put, call `comm.wait_signal(0)` before it;",
        "if what was there before, `comm.signal(0)` after it, and `comm.wait_signal(1)` on rank 0 before the put",
    ];
    assert!(mends.iter().all(|mend| text.contains(mend)), "{text}");
}

/// The same for a write, and for a read by a third rank, to which the owner passes the signal on.
fn names_the_mends_of_other_uses(hazard: &Hazard) {
    let text = |change: fn(&mut OtherUse)| {
        let mut hazard = hazard.clone();
        change(&mut hazard.no_order.as_mut().expect("with both lines").other);
        hazard.to_string()
    };
    let write = text(|other| other.is_write = true);
    assert!(
        write.contains("if the write shall come after the put, call `comm.wait_signal(0)`"),
        "{write}"
    );
    assert!(write.contains("; if before, `comm.signal(0)` after it, and"), "{write}");
    let third = text(|other| other.rank = Rank::from_index(2));
    let passed_on = "call `comm.wait_signal(1)` before it, and on rank 1 `comm.wait_signal(0)`, then `comm.signal(2)`;";
    assert!(third.contains(passed_on), "{third}");
    assert!(third.contains("`comm.wait_signal(2)` on rank 0 before the put"), "{third}");
}

#[test]
fn a_wait_for_the_signal() {
    silent(2, |p| match p.rank {
        0 => p.put(1),
        _ => p.comm.wait_signal(0).and_then(|()| p.read()),
    });
    let told = reported(2, |p| match p.rank {
        0 => p.put(1),
        _ => p.read(),
    });
    let text = told[0].to_string();
    let (put, read) = (line_of("the put"), line_of("the read"));
    assert!(text.starts_with("4..12 of a window of u32 of rank 1 on World: rank "), "{text}");
    assert!(text.contains(&format!("rank 0 puts at tests/hazards/play.rs:{put}")), "{text}");
    assert!(text.contains(&format!("rank 1 reads at tests/hazards/play.rs:{read}")), "{text}");
    assert!(text.contains("nothing orders the two"), "{text}");
    names_both_mends(&told[0]);
    names_the_mends_of_other_uses(&told[0]);
    // A wait after the read does not order it.
    reported(2, |p| match p.rank {
        0 => p.put(1),
        _ => p.read().and_then(|()| p.comm.wait_signal(0)),
    });
}

#[test]
fn a_signal_back() {
    for back in [true, false] {
        let program = |p: &mut Player| {
            for _ in 0..3 {
                match p.rank {
                    0 => {
                        p.put(1)?;
                        if back {
                            p.comm.wait_signal(1)?;
                        }
                    }
                    _ => {
                        p.comm.wait_signal(0)?;
                        p.read()?;
                        if back {
                            p.comm.signal(0)?;
                        }
                    }
                }
            }
            Ok(())
        };
        match back {
            true => silent(2, program),
            false => {
                let told = reported(2, program);
                names_both_mends(&told[0]);
            }
        }
    }
}

#[test]
fn signals_of_one_context_only() {
    // Another signal of the same context covers earlier puts.
    silent(2, |p| match p.rank {
        0 => p.put_in(1, 0).and_then(|()| p.signal_in(1, 0, 1)),
        _ => p.wait_in(0, 0, 1).and_then(|()| p.read()),
    });
    reported(2, |p| match p.rank {
        0 => p.put_in(1, 0).and_then(|()| p.signal_in(1, 1, 0)),
        _ => p.wait_in(0, 1, 0).and_then(|()| p.read()),
    });
    // Earlier reads are over, whatever the context.
    silent(2, |p| match p.rank {
        0 => p.wait_in(1, 1, 1).and_then(|()| p.put(1)),
        _ => p.read().and_then(|()| p.signal_in(0, 1, 1)),
    });
}

#[test]
fn a_third_rank_in_between() {
    silent(3, |p| match p.rank {
        0 => p.put(1),
        1 => {
            p.comm.wait_signal(0)?;
            p.comm.signal(2)?;
            p.comm.wait_signal(2)?;
            p.read()
        }
        _ => p.comm.wait_signal(1).and_then(|()| p.put(1)),
    });
    // A signal to another rank does not cover a put to this one.
    reported(3, |p| match p.rank {
        0 => p.put(1).and_then(|()| p.comm.signal(2)),
        1 => p.comm.wait_signal(2).and_then(|()| p.read()),
        _ => p.comm.wait_signal(0).and_then(|()| p.comm.signal(1)),
    });
}

#[test]
fn two_puts() {
    let told = play(3, |p| match p.rank {
        1 => Ok(()),
        _ => p.put(1),
    });
    assert!(told.iter().all(|told| told.len() == 1), "{told:?}");
    let text = told[1][0].to_string();
    assert!(text.contains("rank 0 puts at ") && text.contains("rank 2 puts at "), "{text}");
    // Puts of one rank in one context are ordered; in two contexts they are not.
    silent(2, |p| match p.rank {
        0 => p.put(1).and_then(|()| p.put(1)),
        _ => Ok(()),
    });
    reported(2, |p| match p.rank {
        0 => p.put_in(1, 0).and_then(|()| p.put_in(1, 1)),
        _ => Ok(()),
    });
}

#[test]
fn marks_between_streams() {
    for waits in [true, false] {
        let program = |p: &mut Player| match p.rank {
            0 => p.comm.wait_signal(1).and_then(|()| p.put(1)),
            _ => {
                p.read_aside()?;
                if waits {
                    p.comm.stream().wait_for(&p.side.mark()?)?;
                }
                p.comm.signal(0)
            }
        };
        match waits {
            true => silent(2, program),
            false => drop(reported(2, program)),
        }
    }
    // A mark is a point: later work on its stream is not covered.
    reported(2, |p| match p.rank {
        0 => p.comm.wait_signal(1).and_then(|()| p.put(1)),
        _ => {
            let mark = p.side.mark()?;
            p.read_aside()?;
            p.comm.stream().wait_for(&mark)?;
            p.comm.signal(0)
        }
    });
}

#[test]
fn operations_of_a_communicator_on_two_streams() {
    // The wait and the read are on different streams: memory orders the two.
    silent(2, |p| match p.rank {
        0 => p.put(1),
        _ => {
            p.comm.on(&p.side).wait_signal(0)?;
            p.read()
        }
    });
    // A put on one stream, its signal on another: one communicator, one order.
    silent(2, |p| match p.rank {
        0 => p.put_in(1, 0).and_then(|()| p.comm.on(&p.side).signal(1)),
        _ => {
            p.comm.wait_signal(0)?;
            p.comm.wait_signal(0)?;
            p.read()
        }
    });
}

#[test]
fn collectives_of_all_to_all() {
    type Step = fn(&mut Player) -> Result<()>;
    let steps: [Step; 4] = [
        |p| p.comm.all_reduce_in_place(&mut p.one, Sum),
        |p| p.comm.all_gather(&p.one, &mut p.all),
        |p| p.comm.reduce_scatter(&p.all, &mut p.one, Sum),
        |p| p.comm.all_to_all(&p.all, &mut p.seen.slice_mut(0..2)),
    ];
    for step in steps {
        silent(2, |p| match p.rank {
            0 => p.put(1).and_then(|()| step(p)),
            _ => step(p).and_then(|()| p.read()),
        });
        silent(2, |p| match p.rank {
            0 => step(p).and_then(|()| p.put(1)),
            _ => p.read().and_then(|()| step(p)),
        });
        reported(2, |p| match p.rank {
            0 => p.put(1).and_then(|()| step(p)),
            _ => p.read().and_then(|()| step(p)),
        });
        reported(2, |p| match p.rank {
            0 => step(p).and_then(|()| p.put(1)),
            _ => step(p).and_then(|()| p.read()),
        });
    }
}

fn broadcast(p: &mut Player, root: usize) -> Result<()> {
    p.comm.broadcast_in_place(&mut p.one, root)
}

fn scatter(p: &mut Player, root: usize) -> Result<()> {
    let from =
        if p.rank == root { Root::Here(&p.all) } else { Root::There(Rank::from_index(root)) };
    p.comm.scatter(from, &mut p.one)
}

fn reduce(p: &mut Player, root: usize) -> Result<()> {
    p.comm.reduce_in_place(&mut p.one, Sum, root)
}

fn gather(p: &mut Player, root: usize) -> Result<()> {
    p.comm.gather(&p.one, root).map(drop)
}

#[test]
fn collectives_with_a_root() {
    type Step = fn(&mut Player, usize) -> Result<()>;
    // From rank 0 to rank 1, with rank 0 as the root of one kind, and rank 1 as that of the other.
    let steps: [(Step, usize); 4] = [(broadcast, 0), (scatter, 0), (reduce, 1), (gather, 1)];
    for (step, root) in steps {
        silent(3, |p| match p.rank {
            0 => p.put(1).and_then(|()| step(p, root)),
            1 => step(p, root).and_then(|()| p.read()),
            _ => step(p, root),
        });
        reported(3, |p| match p.rank {
            0 => p.put(1).and_then(|()| step(p, 1 - root)),
            1 => step(p, 1 - root).and_then(|()| p.read()),
            _ => step(p, 1 - root),
        });
    }
}

#[test]
fn messages() {
    silent(2, |p| match p.rank {
        0 => p.put(1).and_then(|()| p.comm.send(&p.one, 1)),
        _ => p.comm.recv(&mut p.one, 0).and_then(|()| p.read()),
    });
    reported(2, |p| match p.rank {
        0 => p.put(1).and_then(|()| p.comm.recv(&mut p.one, 1)),
        _ => p.comm.send(&p.one, 0).and_then(|()| p.read()),
    });
}

#[test]
fn what_the_host_has_seen() {
    // A host wait, a reached mark, and a read by the host itself order later work, in whatever way
    // the threads communicate.
    for way in 0..3 {
        let (tell, told) = mpsc::channel();
        let told = std::sync::Mutex::new(told);
        let both = Barrier::new(2);
        silent(2, |p| match p.rank {
            0 => {
                p.put(1)?;
                match way {
                    0 => p.comm.stream().sync()?,
                    1 => while !p.comm.stream().mark()?.is_reached()? {},
                    _ => {
                        p.source.copy_from(&[1; 16])?;
                    }
                }
                tell.send(()).expect("heard");
                both.wait();
                Ok(())
            }
            _ => {
                told.lock().expect("no panic").recv().expect("told");
                both.wait();
                p.read()
            }
        });
    }
    // A barrier alone waits for no stream.
    reported(2, |p| match p.rank {
        0 => p.put(1).and_then(|()| p.comm.barrier()),
        _ => p.comm.barrier().and_then(|()| p.read()),
    });
    // The host reads a window before the peer's thread proceeds, and after the put was enqueued.
    silent(2, |p| match p.rank {
        0 => p.comm.barrier().and_then(|()| p.put(1)),
        _ => p.window.to_vec().and_then(|_| p.comm.barrier()),
    });
    reported(2, |p| match p.rank {
        0 => p.put(1).and_then(|()| p.comm.barrier()),
        _ => p.comm.barrier().and_then(|()| p.window.to_vec().map(drop)),
    });
}

#[test]
fn a_write_beside_a_put_is_told_to_name_its_part() {
    let told = reported(2, |p| match p.rank {
        0 => p.put(1),
        _ => p.write(),
    });
    let text = told[0].to_string();
    assert!(text.contains("names its own part: `x.slice_mut(a..b)`"), "{text}");
    let told = reported(2, |p| match p.rank {
        0 => p.put(1),
        _ => p.read(),
    });
    assert!(!told[0].to_string().contains("slice_mut"), "{}", told[0]);
}
