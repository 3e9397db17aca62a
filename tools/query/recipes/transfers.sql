SELECT kind, CAST(power(2, length(bin(bytes)) - 1) AS BIGINT) AS from_bytes, count(*) AS timed,
  CAST(sum(bytes) AS BIGINT) AS bytes,
  sum(bytes / coalesce(CAST(probability AS DOUBLE), 1))
    / sum(duration_ns / coalesce(CAST(probability AS DOUBLE), 1)) AS gb_per_s
FROM commands WHERE bytes > 0 AND duration_ns > 0 GROUP BY kind, from_bytes ORDER BY kind, from_bytes
