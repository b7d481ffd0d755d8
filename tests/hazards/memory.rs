//! Which accesses count as uses, and of which bytes.

use typed_nccl::{Result, Sum};

use super::play::{Player, play};

fn hazards(program: impl Fn(&mut Player) -> Result<()> + Sync) -> usize {
    play(2, program).iter().map(Vec::len).sum()
}

#[test]
fn every_use_of_a_window() {
    type Use = fn(&mut Player) -> Result<()>;
    let uses: [(&str, Use); 9] = [
        ("all_reduce reads", |p| p.comm.all_reduce(&p.window, &mut p.seen, Sum)),
        ("all_reduce writes", |p| p.comm.all_reduce(&p.seen, &mut p.window, Sum)),
        ("launch reads", Player::read),
        ("launch writes", Player::write),
        ("the host reads", |p| p.window.to_vec().map(drop)),
        ("the host writes", |p| p.window.copy_from(&[1; 16])),
        ("upload", |p| {
            let pinned = p.comm.device().pinned(16)?;
            p.comm.stream().upload(pinned, &mut p.window)?.wait()?;
            Ok(())
        }),
        ("download", |p| {
            let pinned = p.comm.device().pinned(16)?;
            p.comm.stream().download(&p.window, pinned)?.wait()?;
            Ok(())
        }),
        ("a put reads", |p| p.comm.put_signal(p.window.slice(4..6), 1, p.source.at(0))),
    ];
    for (what, using) in uses {
        let found = hazards(|p| {
            // Rank 0 enqueues its put before rank 1 proceeds: the host does not know it to be over.
            if p.rank == 0 {
                p.put(1)?;
            }
            p.comm.barrier()?;
            if p.rank == 1 || what.starts_with("all_reduce") {
                using(p)?;
            }
            Ok(())
        });
        assert!(found >= 2, "{what}: both ranks are told, not {found}");
    }
}

#[test]
fn a_message_reads_and_writes_windows() {
    for sends in [true, false] {
        let found = hazards(|p| {
            if p.rank == 0 {
                p.put(1)?;
            }
            p.comm.barrier()?;
            match (p.rank == 1) == sends {
                true => p.comm.send(&p.window, 1 - p.rank),
                false => p.comm.recv(&mut p.window, 1 - p.rank),
            }
        });
        // A message does not order the accesses made for it.
        assert!(found >= 2, "sends {sends}: {found}");
    }
}

#[test]
fn the_source_of_a_put() {
    // Rank 1 puts into what rank 0's put reads.
    let found = hazards(|p| match p.rank {
        0 => p.put(1),
        _ => p.comm.put_signal(p.window.slice(0..4), 0, p.source.at(4)),
    });
    assert!(found >= 2, "{found}");
    // Its signal shows that the data was read.
    let found = hazards(|p| match p.rank {
        0 => p.put(1),
        _ => {
            p.comm.wait_signal(0)?;
            p.comm.put_signal(p.window.slice(0..4), 0, p.source.at(4))
        }
    });
    assert_eq!(found, 0);
}

#[test]
fn a_put_to_oneself() {
    assert!(hazards(|p| p.put(p.rank).and_then(|()| p.read())) >= 2);
    assert_eq!(
        hazards(|p| {
            p.put(p.rank)?;
            p.comm.wait_signal(p.rank)?;
            p.read()
        }),
        0
    );
}

#[test]
fn other_bytes_and_other_reads() {
    let read = |p: &mut Player, range: std::ops::Range<usize>| {
        p.comm.stream().launch(p.window.slice(range), |_, ()| {})
    };
    let beside = |range: std::ops::Range<usize>| {
        hazards(|p| match p.rank {
            0 => p.put(1),
            _ => read(p, range.clone()),
        })
    };
    assert_eq!(beside(0..4) + beside(12..16) + beside(5..5), 0);
    assert!(beside(0..5) >= 2 && beside(11..16) >= 2 && beside(6..7) >= 2);
}

#[test]
fn what_moves_in_place_is_not_written_where_it_was() {
    // The others have the root's elements, so it has read them, and it writes none.
    let found = hazards(|p| {
        p.comm.broadcast_in_place(&mut p.window, 1)?;
        if p.rank == 0 { p.put(1) } else { Ok(()) }
    });
    assert_eq!(found, 0);
    // It may still be writing the elements that it does write.
    let found = hazards(|p| {
        p.comm.all_reduce_in_place(&mut p.window, Sum)?;
        if p.rank == 0 { p.put(1) } else { Ok(()) }
    });
    assert!(found >= 2, "{found}");
}

/// A put into one part of an allocation, and a use of it or of the next part.
#[test]
fn parts_of_one_allocation_are_apart() {
    for beside in [true, false] {
        let found = hazards(|p| {
            let memory = p.comm.device().nccl_zeros::<u32>(2048)?;
            let (first, second) = memory.split_at(1024)?;
            let mut first = p.comm.register_window(first)?;
            let mut second = p.comm.register_window(second)?;
            if p.rank == 0 {
                p.comm.put_signal(p.source.slice(0..8), 1, first.at(1016))?;
            }
            p.comm.barrier()?;
            if p.rank == 1 {
                let used = if beside { &mut second } else { &mut first };
                p.comm.stream().launch(used, |_: &mut [u32], ()| {})?;
            }
            Ok(())
        });
        assert_eq!(found, if beside { 0 } else { 2 });
    }
}
