//! Cartesian grids of ranks.

use crate::error::{BadGrid, Error, Site};
use crate::{Communicator, Rank, Result, State, World};

/// A grid of a communicator's ranks, periodic or open. The last axis varies fastest. Its ranks are
/// those of the communicator as it was: one that goes on without some of them is laid out again.
///
/// ```
/// # use typed_nccl::{Cart, Host, Result, spmd};
/// # fn main() -> Result<()> {
/// spmd::<Host>(6, |place| {
///     let comm = place.init()?;
///     let grid = Cart::over(&comm, [2, 3], true)?;
///     let [row, column] = grid.place();
///     assert_eq!(3 * row + column, comm.rank().index());
///     let below = grid.shift(0, 1).expect("it is periodic");
///     assert_eq!(below.index(), (comm.rank().index() + 3) % 6);
///     comm.finish()
/// })
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cart<const N: usize> {
    dims: [usize; N],
    place: [usize; N],
    periodic: bool,
    /// Rank 0 of the communicator.
    zero: Rank,
}

impl<const N: usize> Cart<N> {
    /// Lays a communicator's ranks out on a grid. Local.
    ///
    /// # Errors
    /// [`Error::BadGrid`]: the grid has more or fewer places than there are ranks.
    #[track_caller]
    pub fn over<W: World, S: State>(
        comm: &Communicator<W, S>,
        dims: [usize; N],
        periodic: bool,
    ) -> Result<Self> {
        let places = dims.iter().try_fold(1_usize, |n, &dim| n.checked_mul(dim));
        if places != Some(comm.size()) {
            let (dims, ranks, site) = (dims.to_vec(), comm.size(), Site::caller());
            return Err(Error::from(BadGrid { dims, ranks, site }));
        }
        let mut rest = comm.rank().index();
        let mut place = [0; N];
        for axis in (0..N).rev() {
            place[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        Ok(Self { dims, place, periodic, zero: comm.rank().beside(0) })
    }

    /// This rank's place.
    pub fn place(&self) -> [usize; N] {
        self.place
    }

    /// How many places each axis has.
    pub fn dims(&self) -> [usize; N] {
        self.dims
    }

    /// The rank `by` places further along `axis`; `None` past an open edge, or if there is no such
    /// axis.
    pub fn shift(&self, axis: usize, by: isize) -> Option<Rank> {
        let dim = isize::try_from(*self.dims.get(axis)?).ok()?;
        let from = isize::try_from(self.place[axis]).ok()?;
        let to = match self.periodic {
            true => (from + by.rem_euclid(dim)) % dim,
            false => from.checked_add(by).filter(|to| (0..dim).contains(to))?,
        };
        let mut place = self.place;
        place[axis] = to.unsigned_abs();
        let rank = place.iter().zip(self.dims).fold(0, |rank, (&p, dim)| rank * dim + p);
        Some(self.zero.beside(rank))
    }
}
