SELECT host, rank, name, sum(energy_j) AS joules, sum(energy_low_j) AS low, sum(energy_high_j) AS high
FROM commands WHERE energy_j IS NOT NULL GROUP BY host, rank, name
ORDER BY joules DESC, host, rank, name
