//! Owns queries that answer what people ask most. Refuses to run them.

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

/// All of them.
pub const RECIPES: [Recipe; 6] = [
    Recipe {
        name: "kernels",
        about: "kernels by device time of their timed launches",
        sql: "SELECT name, count(*) AS launches, count(duration_ns) AS timed,
  sum(duration_ns)::BIGINT AS timed_ns, sum(energy_j) AS joules
FROM commands WHERE kind = 'NDRangeKernel' GROUP BY name ORDER BY timed_ns DESC NULLS LAST, name",
    },
    Recipe {
        name: "gaps",
        about: "idle time of each queue between its timed commands",
        sql: "SELECT process, queue, sum(gap)::BIGINT AS idle_ns, max(gap) AS longest_ns, count(*) AS gaps
FROM (SELECT process, queue, start_ns - max(start_ns + duration_ns) OVER (PARTITION BY process, queue
  ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap
  FROM commands WHERE outcome = 'timed')
WHERE gap > 0 GROUP BY ALL ORDER BY idle_ns DESC, process, queue",
    },
    Recipe {
        name: "overlap",
        about: "time in which so many commands ran on a device at once",
        sql: "WITH edges AS (
  SELECT host, device, start_ns AS moment, 1 AS step FROM commands WHERE outcome = 'timed'
  UNION ALL
  SELECT host, device, start_ns + duration_ns, -1 FROM commands WHERE outcome = 'timed'),
stretches AS (SELECT host, device,
  sum(step) OVER (PARTITION BY host, device ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS at_once,
  lead(moment) OVER (PARTITION BY host, device ORDER BY moment, step) - moment AS ns FROM edges)
SELECT host, device, at_once::BIGINT AS at_once, sum(ns)::BIGINT AS ns FROM stretches
WHERE at_once > 0 GROUP BY ALL ORDER BY host, device, at_once",
    },
    Recipe {
        name: "imbalance",
        about: "device time and joules of each rank, and over the mean of all",
        sql: "SELECT host, rank, sum(duration_ns)::BIGINT AS busy_ns,
  sum(duration_ns) / avg(sum(duration_ns)) OVER () AS of_mean, sum(energy_j) AS joules
FROM commands GROUP BY ALL ORDER BY busy_ns DESC NULLS LAST, host, rank",
    },
    Recipe {
        name: "energy",
        about: "joules of each rank by kernel and transfer, where the power of each is known alone",
        sql: "SELECT host, rank, name, sum(energy_j) AS joules, sum(energy_low_j) AS low,
  sum(energy_high_j) AS high
FROM commands WHERE energy_j IS NOT NULL GROUP BY ALL ORDER BY joules DESC, host, rank, name",
    },
    Recipe {
        name: "transfers",
        about: "transfers by size, in powers of two, and their rates",
        sql: "SELECT kind, (2 ** floor(log2(bytes)))::BIGINT AS from_bytes, count(*) AS count,
  sum(bytes)::BIGINT AS bytes, sum(bytes) / sum(duration_ns) AS gb_per_s
FROM commands WHERE bytes > 0 AND duration_ns > 0 GROUP BY ALL ORDER BY kind, from_bytes",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_each_is_one_query() {
        for (i, recipe) in RECIPES.iter().enumerate() {
            assert!(recipe.name.bytes().all(|b| b.is_ascii_lowercase()), "{}", recipe.name);
            assert!(RECIPES.iter().skip(i + 1).all(|other| other.name != recipe.name));
            assert!(!recipe.sql.contains(';') && !recipe.about.ends_with('.'));
        }
    }
}
