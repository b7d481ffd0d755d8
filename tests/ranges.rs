//! Views are made of any range, and what is past the end is refused by the operation.

use std::ops::Bound::{Excluded, Unbounded};

use typed_nccl::{AnyDevice, Communicator, DType, DynBuffer, Error, Host, Result, Seat, Sum};

fn alone() -> Result<Communicator<Host<AnyDevice>>> {
    Seat::local(1).remove(0).init(Host::any(0)?)
}

#[test]
fn every_kind_of_range_makes_a_view() -> Result<()> {
    let comm = alone()?;
    let mut x = comm.device().from_slice(&[0_u8, 1, 2, 3, 4])?;
    assert_eq!(x.slice(..).to_vec()?, [0, 1, 2, 3, 4]);
    assert_eq!(x.slice(3..).to_vec()?, [3, 4]);
    assert_eq!(x.slice(..2).to_vec()?, [0, 1]);
    assert_eq!(x.slice(1..=3).to_vec()?, [1, 2, 3]);
    assert_eq!(x.slice((Excluded(2), Unbounded)).to_vec()?, [3, 4]);
    assert_eq!(x.slice(1..).slice(..=1).to_vec()?, [1, 2]);
    assert!(x.slice(5..).to_vec()?.is_empty());
    x.slice_mut(..2).copy_from(&[9, 8])?;
    x.slice_mut(1..).slice_mut(3..).copy_from(&[7])?;
    x.slice_mut(..).into_slice(2..=2).copy_from(&[6])?;
    assert_eq!(x.to_vec()?, [9, 8, 6, 3, 7]);

    let mut dynamic = x.into_dyn();
    assert_eq!(dynamic.slice(1..).slice(..=0).typed::<u8>()?.to_vec()?, [8]);
    dynamic.slice_mut(3..).slice_mut(..1).typed::<u8>()?.copy_from(&[5])?;
    assert_eq!(dynamic.typed::<u8>()?.to_vec()?, [9, 8, 6, 5, 7]);
    comm.finish()
}

#[test]
fn windows_have_parts_by_any_range() -> Result<()> {
    let mut comm = alone()?;
    let mut window = comm.window::<i32>(4)?;
    window.slice_mut(2..).copy_from(&[1, 2])?;
    assert_eq!(window.slice(..).slice(1..=2).to_vec()?, [0, 1]);
    comm.all_reduce_in_place(&mut window.slice_mut(..=2), Sum)?;
    assert_eq!(window.to_vec()?, [0, 0, 1, 2]);
    drop(window);
    comm.finish()
}

#[test]
fn what_is_past_the_end_is_refused() -> Result<()> {
    let comm = alone()?;
    let mut x = comm.device().zeros::<f32>(4)?;
    let len = usize::MAX;
    #[expect(clippy::reversed_empty_ranges, reason = "that is the mistake")]
    let reversed = 3..2;
    for (start, end, outcome) in [
        (5, 5, comm.all_reduce_in_place(&mut x.slice_mut(5..), Sum)),
        (0, 5, comm.all_reduce_in_place(&mut x.slice_mut(..=4), Sum)),
        (0, len, comm.all_reduce_in_place(&mut x.slice_mut(..=len), Sum)),
        (len, len, comm.all_reduce_in_place(&mut x.slice_mut((Excluded(len), Unbounded)), Sum)),
        (3, 2, comm.all_reduce_in_place(&mut x.slice_mut(reversed), Sum)),
        (1, 5, comm.all_reduce_in_place(&mut x.slice_mut(1..5).slice_mut(..), Sum)),
    ] {
        let error = outcome.expect_err("it is past the end");
        let Error::BadRange(bad) = &error else { panic!("{error}") };
        assert_eq!((bad.start, bad.end, bad.len), (start, end, 4));
        assert_eq!(bad.site.file(), file!());
    }
    let bad = DynBuffer::zeros(comm.device(), DType::F64, 2)?;
    let error = bad.slice(..=2).typed::<f64>()?.to_vec().expect_err("it is past the end");
    assert!(matches!(error, Error::BadRange(_)), "{error}");
    comm.finish()
}
