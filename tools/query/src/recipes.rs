//! Owns queries that answer what people ask most: a file each in `recipes/`, in the words that
//! DuckDB and Spark share, so that `engines/` asks the same. Refuses to run them.

/// A query with a name.
#[derive(Debug)]
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// What it answers.
    pub about: &'static str,
    /// The query, over the views.
    pub sql: &'static str,
}

macro_rules! recipes {
    ($($name:literal: $about:literal,)*) => {
        [$(Recipe {
            name: $name,
            about: $about,
            sql: include_str!(concat!("../recipes/", $name, ".sql")).trim_ascii_end(),
        }),*]
    };
}

/// All of them.
pub const RECIPES: [Recipe; 10] = recipes! {
    "kernels": "kernels by device time, of timed launches and estimated of all (a sampled launch weighs 1 / probability)",
    "lengths": "median, 95th percentile, shortest and longest timed launch of each kernel",
    "longest": "the twenty longest commands, and where they are",
    "gaps": "idle time of each queue between its timed commands",
    "overlap": "time in which so many commands ran on a device at once",
    "delays": "time that commands of each queue spent before they started",
    "imbalance": "device time and joules of each rank, estimated of all its commands, and over the mean of all",
    "energy": "joules of each rank by kernel and transfer, estimated of all launches, where the power of each is known alone",
    "transfers": "timed transfers by size, in powers of two, and their rates",
    "calls": "host calls by time",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_each_is_one_query() {
        for (i, recipe) in RECIPES.iter().enumerate() {
            assert!(recipe.name.bytes().all(|b| b.is_ascii_lowercase()), "{}", recipe.name);
            assert!(RECIPES.iter().skip(i + 1).all(|other| other.name != recipe.name));
            assert!(!recipe.sql.contains(';') && !recipe.about.ends_with('.'));
            // Spark has no such casts.
            assert!(!recipe.sql.contains("::") && !recipe.sql.ends_with('\n'), "{}", recipe.name);
        }
    }

    #[test]
    fn sums_of_time_and_joules_weigh_sampled_commands() {
        // Every host call is recorded.
        for recipe in RECIPES.iter().filter(|recipe| recipe.sql.contains("FROM commands")) {
            // Of timed commands alone, and named so.
            let sql = recipe.sql.replace("sum(duration_ns) AS BIGINT) AS timed_ns", "");
            for sum in
                ["sum(duration_ns)", "sum(energy_j)", "sum(energy_low_j)", "sum(energy_high_j)"]
            {
                assert!(!sql.contains(sum), "{}: {sum}", recipe.name);
            }
        }
    }

    #[test]
    fn each_file_is_a_recipe() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("recipes");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), RECIPES.len());
    }
}
