//! 2-D halo exchange on a periodic grid of ranks, with one-sided puts. The grid has two rows, so
//! along one axis both neighbours are the same rank.

use typed_nccl::{Cart, Communicator, Device, Result, Signals, Stream, Window, launch};

/// Side, axis, direction. My north edge is the south ghost of the rank to the north: side ^ 1.
const SIDES: [(usize, usize, isize); 4] = [(0, 0, -1), (1, 0, 1), (2, 1, -1), (3, 1, 1)];

/// A tile of a periodic 2-D field with its edges staged in symmetric windows. Owns everything it
/// needs.
struct Halo<D: Device> {
    grid: Cart<2>,
    /// north | south | west | east, each `m` long, packed by the stencil kernel.
    out: Window<f32, D>,
    /// By parity: a put proves arrival, not that the neighbour has finished reading.
    ghost: [Window<f32, D>; 2],
    m: usize,
    turn: usize,
    arrivals: Signals,
}

impl<D: Device> Halo<D> {
    fn new(comm: &mut Communicator<D>, dims: [usize; 2], m: usize) -> Result<Self> {
        let grid = Cart::over(comm, dims, true)?;
        let out = comm.window(4 * m)?;
        let ghost = [comm.window(4 * m)?, comm.window(4 * m)?];
        Ok(Self { grid, out, ghost, m, turn: 0, arrivals: Signals::new() })
    }

    /// Enqueues one exchange; afterwards, in stream order, the returned window holds the
    /// neighbours' edges.
    fn exchange(&mut self, comm: &Communicator<D>, stream: &Stream<D>) -> Result<&Window<f32, D>> {
        let on = comm.on(stream);
        let (m, ghost) = (self.m, &self.ghost[self.turn % 2]);
        self.arrivals.clear();
        for (side, axis, by) in SIDES {
            let Some(peer) = self.grid.shift(axis, by) else { continue };
            let theirs = side ^ 1;
            on.put_signal(self.out.slice(side * m..(side + 1) * m), peer, ghost.at(theirs * m))?;
            self.arrivals.expect(peer); // twice for one peer when an axis has two ranks
        }
        on.wait_signals(&self.arrivals)?;
        self.turn += 1;
        Ok(ghost)
    }
}

fn main() -> Result<()> {
    launch!(job)
}

/// Runs on every rank, of which there must be an even number.
fn job<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    const M: usize = 1000;
    const TURNS: usize = 50;
    let (me, columns) = (comm.rank().index(), comm.size() / 2);
    let mut halo = Halo::new(&mut comm, [2, columns], M)?;
    let stream = comm.device().stream()?;
    let value = |rank: usize, side: usize, turn: usize| (turn * 100 + rank * 10 + side) as f32;
    for turn in 0..TURNS {
        let edges: Vec<f32> = (0..4 * M).map(|i| value(me, i / M, turn)).collect();
        halo.out.copy_from(&edges)?;
        let ghost = halo.exchange(&comm, &stream)?.to_vec()?;
        for (side, axis, by) in SIDES {
            let Some(peer) = halo.grid.shift(axis, by) else { continue };
            let expected = value(peer.index(), side ^ 1, turn);
            assert!(ghost[side * M..(side + 1) * M].iter().all(|&x| x == expected));
        }
    }
    if me == 0 {
        println!("{TURNS} exchanges on a periodic grid of 2 x {columns} verified");
    }
    comm.finish()
}
