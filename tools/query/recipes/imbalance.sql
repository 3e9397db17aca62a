SELECT host, rank, CAST(sum(duration_ns) AS BIGINT) AS busy_ns,
  sum(duration_ns) / avg(sum(duration_ns)) OVER () AS of_mean, sum(energy_j) AS joules
FROM commands GROUP BY host, rank ORDER BY busy_ns DESC NULLS LAST, host, rank
