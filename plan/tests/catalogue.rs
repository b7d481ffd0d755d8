//! Every good plan is accepted, every near miss rejected by its own check, in the right words.

mod plans;

use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::check::check_at;

fn holds_at_small_sizes(plan: PlanBuilder) {
    let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
    let sizes = plans::small::sizes(&plan);
    assert!(!sizes.is_empty(), "no small sizes");
    for sizes in sizes {
        if let Err(rejected) = check_at(&plan, &sizes) {
            panic!("at {}:\n{rejected}", sizes.text);
        }
    }
}

macro_rules! accepted {
    ($($file:ident { $($name:ident)+ })+) => {
        mod good {
            $(mod $file {
                $(#[test]
                fn $name() {
                    crate::holds_at_small_sizes(crate::plans::$file::$name());
                    if let Err(refused) = crate::plans::$file::$name().check() {
                        panic!("{refused}");
                    }
                })+
            })+
        }
    };
}

macro_rules! rejected {
    ($($file:ident { $($name:ident)+ })+) => {
        mod near_miss {
            $(mod $file {
                $(#[test]
                fn $name() {
                    crate::plans::$file::$name().verify_at_small_sizes();
                    crate::plans::$file::$name().verify();
                })+
            })+
        }
    };
}

plans::each_good_plan!(accepted);
plans::each_near_miss!(rejected);
