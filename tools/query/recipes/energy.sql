SELECT host, rank, name, sum(energy_j / coalesce(CAST(probability AS DOUBLE), 1)) AS joules,
  sum(energy_low_j / coalesce(CAST(probability AS DOUBLE), 1)) AS low,
  sum(energy_high_j / coalesce(CAST(probability AS DOUBLE), 1)) AS high
FROM commands WHERE energy_j IS NOT NULL GROUP BY host, rank, name
ORDER BY joules DESC, host, rank, name
