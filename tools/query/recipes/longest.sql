SELECT name, process, command, start_ns, duration_ns,
  CAST(energy_j AS DOUBLE) AS energy_j FROM commands
WHERE duration_ns IS NOT NULL ORDER BY duration_ns DESC, process, command LIMIT 20
