//! Sizes that a plan does not support.

use typed_nccl::Error;
use typed_nccl::plans::{barrier, hierarchical_all_reduce, one_f1b};

use super::ranks::ranks;

#[test]
fn sizes_that_are_not_claimed_are_refused_by_name() {
    let told = |error: Option<Error>| error.map(|error| error.to_string()).unwrap_or_default();
    ranks!(4, |comm| {
        let params = one_f1b::Params { mb: 3, k: 1 };
        let told_few = told(one_f1b::bind::<f32, _>(&mut comm, params).err());
        assert!(told_few.contains("`mb >= n` does not hold"), "{told_few}");
        let params = hierarchical_all_reduce::Params { nodes: 2, local: 2, len: 3 };
        let told_odd = told(hierarchical_all_reduce::bind::<f32, _>(&mut comm, params).err());
        assert!(told_odd.contains("len % local == 0"), "{told_odd}");
    });
    ranks!(17, |comm| {
        let told = told(barrier::bind(&mut comm).err());
        assert!(told.contains("`n` is 17 ranks, and the plan is for 1 to 16"), "{told}");
    });
}
