//! ndarray's arrays on the host, in place.

use ndarray::{Array1, Array2, ArrayD, Axis, IxDyn, ShapeBuilder, s};
use typed_nccl::error::AdoptFault;
use typed_nccl::{AnyDevice, Error, Host, Result, Seat, Sum};

type Dev = Host<AnyDevice>;

#[test]
fn arrays_are_lent_and_adopted() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Dev::any(0)?)?;
    let device = comm.device().clone();
    let x = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as f32);
    let mut y = Array2::<f32>::zeros((3, 4));
    device.lend((&x, &mut y), |(x, y)| comm.all_reduce(x, y, Sum))?;
    assert_eq!(x, y);
    // Rows are contiguous.
    let (top, mut bottom) = y.view_mut().split_at(Axis(0), 1);
    device.lend((&top, &mut bottom), |(x, y)| comm.all_reduce(x, &mut y.slice_mut(4..8), Sum))?;
    assert_eq!(y.row(2), x.row(0));
    device.lend(y.slice_mut(s![0, ..]), |row| row.copy_from(&[7.0; 4]))?;
    assert_eq!(y.row(0), Array1::from_elem(4, 7.0));

    let (at, any) = (x.as_ptr(), ArrayD::<f64>::ones(IxDyn(&[2, 1, 2])));
    let mut adopted = device.adopt(x)?;
    comm.all_reduce_in_place(&mut adopted, Sum)?;
    let x: Array2<f32> = adopted.into_inner()?;
    assert_eq!((x.as_ptr(), x.dim(), x[[2, 3]]), (at, (3, 4), 23.0));
    assert_eq!(device.adopt(any)?.to_vec()?, [1.0; 4]);
    comm.finish()
}

/// Another rank's array may be in another order, and the sums would be of different elements.
#[test]
fn an_array_in_another_order_is_named_and_comes_back() -> Result<()> {
    let device = Dev::any(0)?;
    let check = |error: Error, found: [&str; 2]| {
        let text = error.to_string();
        let Error::NotAdoptable(refusal) = error else { panic!("{text}") };
        assert!(matches!(refusal.fault, AdoptFault::OtherOrder { .. }), "{text}");
        let says = ["of ndarray", "C order", "`x.as_standard_layout().into_owned()`"];
        for part in says.into_iter().chain(found) {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    };
    let mut columns = Array2::<f32>::zeros((3, 4).f());
    let found = ["[3, 4]", "[1, 3]"];
    check(device.lend(&columns, |_| Ok(())).expect_err("F order"), found);
    check(device.lend(&mut columns, |_| Ok(())).expect_err("F order"), found);
    check(device.lend(columns.view_mut(), |_| Ok(())).expect_err("F order"), found);
    let mut row = Array1::from(vec![1.0_f32, 2.0]);
    check(
        device.lend(row.slice_mut(s![..;-1]), |_| Ok(())).expect_err("reversed"),
        ["[2]", "[-1]"],
    );
    let failed = device.adopt(columns).expect_err("F order");
    check(failed.error, found);
    // The same memory, in C order.
    device.lend(&failed.value.t(), |x| x.to_vec().map(drop))?;
    device.adopt(failed.value.reversed_axes())?;
    // An array with one element, or none, is in any order.
    device.lend(&Array2::<f32>::ones((1, 4).f()), |_| Ok(()))?;
    device.lend(&Array2::<f32>::ones((0, 4).f()), |x| x.to_vec().map(drop))?;
    device.adopt(Array2::<f32>::ones((4, 1).f()))?;
    Ok(())
}

#[test]
fn an_array_with_gaps_is_named_and_comes_back() -> Result<()> {
    let device = Dev::any(0)?;
    let mut x = Array2::<f32>::zeros((4, 6));
    let check = |error: Error| {
        assert!(matches!(error, Error::NotAdoptable(_)), "{error}");
        let text = error.to_string();
        for part in ["of ndarray", "[4, 2]", "[6, 1]", "`x.as_standard_layout().into_owned()`"] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    };
    check(device.lend(&x.slice(s![.., ..2]), |_| Ok(())).expect_err("gaps"));
    check(device.lend(x.slice_mut(s![.., ..2]), |_| Ok(())).expect_err("gaps"));
    let failed = device.adopt(x.slice_move(s![.., ..2])).expect_err("gaps");
    check(failed.error);
    let dense = failed.value.as_standard_layout().into_owned();
    device.adopt(dense)?;
    let empty = device.adopt(Array1::<f32>::zeros(0)).expect_err("empty");
    assert!(empty.error.to_string().contains("no elements"), "{}", empty.error);
    Ok(())
}
