//! ndarray's arrays on the host, in place.

use ndarray::{Array1, Array2, ArrayD, Axis, IxDyn, ShapeBuilder, s};
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
    // Rows are one piece, and so are all columns in F order.
    let (top, mut bottom) = y.view_mut().split_at(Axis(0), 1);
    device.lend((&top, &mut bottom), |(x, y)| comm.all_reduce(x, &mut y.slice_mut(4..8), Sum))?;
    assert_eq!(y.row(2), x.row(0));
    device.lend(y.slice_mut(s![0, ..]), |row| row.copy_from(&[7.0; 4]))?;
    assert_eq!(y.row(0), Array1::from_elem(4, 7.0));
    let mut columns = Array2::<f32>::zeros((3, 4).f());
    device.lend(&mut columns, |x| {
        x.copy_from(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0, 0.0])
    })?;
    assert_eq!(columns[[1, 2]], 8.0);

    let (at, any) = (x.as_ptr(), ArrayD::<f64>::ones(IxDyn(&[2, 1, 2])));
    let mut adopted = device.adopt(x)?;
    comm.all_reduce_in_place(&mut adopted, Sum)?;
    let x: Array2<f32> = adopted.into_inner()?;
    assert_eq!((x.as_ptr(), x.dim(), x[[2, 3]]), (at, (3, 4), 23.0));
    assert_eq!(device.adopt(any)?.to_vec()?, [1.0; 4]);
    comm.finish()
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
