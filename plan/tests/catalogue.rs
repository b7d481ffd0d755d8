//! Every good plan is accepted, every near miss rejected by its own check, in the right words: for
//! all sizes that they claim, and size by size.

use crate::plans;
use crate::plans::NearMiss;
use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::check::{check, check_at};

fn accepted(plan: PlanBuilder) {
    if let Err(refused) = plan.check() {
        panic!("{refused}");
    }
}

fn accepted_for_few_sizes(plan: PlanBuilder) {
    let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
    if let Err(rejected) = check(&plans::small::few(plan)) {
        panic!("{rejected}");
    }
}

fn accepted_at_small_sizes(plan: PlanBuilder) {
    let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
    let sizes = plans::small::sizes(&plan);
    assert!(!sizes.is_empty(), "no small sizes");
    for sizes in sizes {
        if let Err(rejected) = check_at(&plan, &sizes) {
            panic!("at {}:\n{rejected}", sizes.text);
        }
    }
}

fn rejected(near_miss: NearMiss) {
    near_miss.verify();
}

fn rejected_for_few_sizes(near_miss: NearMiss) {
    near_miss.verify_for_few_sizes();
}

fn rejected_at_small_sizes(near_miss: NearMiss) {
    near_miss.verify_at_small_sizes();
}

macro_rules! good {
    ($($file:ident { $($name:ident)+ })+) => {
        each! { good_for_all_sizes accepted $($file { $($name)+ })+ }
        each! { good_for_few_sizes accepted_for_few_sizes $($file { $($name)+ })+ }
        each! { good_at_small_sizes accepted_at_small_sizes $($file { $($name)+ })+ }
    };
}

macro_rules! near_misses {
    ($($file:ident { $($name:ident)+ })+) => {
        each! { near_miss_for_all_sizes rejected $($file { $($name)+ })+ }
        each! { near_miss_for_few_sizes rejected_for_few_sizes $($file { $($name)+ })+ }
        each! { near_miss_at_small_sizes rejected_at_small_sizes $($file { $($name)+ })+ }
    };
}

macro_rules! each {
    ($what:ident $judge:ident $($file:ident { $($name:ident)+ })+) => {
        mod $what {
            use super::*;

            $(mod $file {
                use super::*;

                $(#[test]
                fn $name() {
                    $judge(plans::$file::$name());
                })+
            })+
        }
    };
}

plans::each_good_plan!(good);
plans::each_near_miss!(near_misses);
