//! Every good plan is accepted, every near miss rejected by its own check, in the right words.

mod plans;

macro_rules! accepted {
    ($($file:ident { $($name:ident)+ })+) => {
        mod good {
            $(mod $file {
                $(#[test]
                fn $name() {
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
                    crate::plans::$file::$name().verify();
                })+
            })+
        }
    };
}

plans::each_good_plan!(accepted);
plans::each_near_miss!(rejected);
