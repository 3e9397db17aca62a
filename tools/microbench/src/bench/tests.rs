//! Tests of `bench`.

use super::*;

#[test]
fn the_fastest_time_that_another_confirms_is_taken() {
    assert_eq!(agreement(&[10.0]), None);
    assert_eq!(agreement(&[10.0, 12.0]), None);
    assert_eq!(agreement(&[10.0, 12.0, 12.1]), Some(1));
    assert_eq!(agreement(&[10.2, 12.0, 12.1, 10.0]), Some(3));
}
