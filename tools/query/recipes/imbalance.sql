SELECT host, rank, CAST(round(busy) AS BIGINT) AS busy_ns, busy / avg(busy) OVER () AS of_mean, joules
FROM (SELECT host, rank, sum(duration_ns / coalesce(CAST(probability AS DOUBLE), 1)) AS busy,
    sum(energy_j / coalesce(CAST(probability AS DOUBLE), 1)) AS joules
  FROM commands GROUP BY host, rank)
ORDER BY busy_ns DESC NULLS LAST, host, rank
