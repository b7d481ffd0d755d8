//! Fourteen common schedules: each is accepted at the sizes that are checked at compile time, and
//! at larger ones.

use typed_nccl_plan::check;

use super::source::ir;

/// Extents, then the values of the parameters.
type Size<'a> = (&'a [i64], &'a [i64]);

fn accepted(name: &str, larger: &[Size<'_>]) {
    let plan = ir(&format!("schedules::{name}"));
    let checked = check::check(&plan).unwrap_or_else(|rejected| panic!("{name}:\n{rejected}"));
    assert!(checked.len() >= 6, "{name}: {checked}");
    for (extents, params) in larger {
        let params: Vec<Vec<i64>> = params.iter().map(|value| vec![*value]).collect();
        let sizes = plan.sizes(extents, &params).unwrap_or_else(|why| panic!("{name}: {why}"));
        check::check_at(&plan, &sizes).unwrap_or_else(|rejected| panic!("{name}:\n{rejected}"));
    }
}

macro_rules! schedules {
    ($($name:ident: $($size:expr),+;)+) => {$(
        #[test]
        fn $name() {
            accepted(stringify!($name), &[$($size),+]);
        }
    )+};
}

schedules! {
    ring_attention: (&[11], &[5]), (&[100], &[3]);
    ring_all_reduce: (&[11], &[55]), (&[48], &[96]);
    butterfly: (&[16], &[6]), (&[32], &[5]);
    cannon: (&[4, 4], &[9]), (&[7, 7], &[5]);
    summa: (&[4, 4], &[9]), (&[9, 9], &[5]);
    sharded_layers: (&[11], &[5, 22, 9]), (&[128], &[3, 128, 1]);
    tensor_and_data_parallel: (&[5, 3], &[6, 9, 7]), (&[16, 8], &[3, 4, 5]);
    all_to_all_attention: (&[11], &[33]), (&[100], &[300]);
    halo_3d: (&[5, 2, 3], &[9]), (&[6, 6, 6], &[4]);
    master_and_workers: (&[11], &[5]), (&[100], &[3]);
    chain: (&[11], &[5]), (&[100], &[3]);
    odd_even_sort: (&[11], &[5]), (&[50], &[3]);
    bruck: (&[11], &[5]), (&[51], &[3]);
    barrier_of_signals: (&[40], &[]), (&[57], &[]);
}
